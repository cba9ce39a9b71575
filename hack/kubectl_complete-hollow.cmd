@rem kubectl asks the program of this name on the PATH, kubectl_complete-hollow, to complete "kubectl hollow".
@"%~dp0kubectl-hollow.exe" __complete %*
