#!/usr/bin/env bash
# Installs Chromium for the tests that drive a browser, where there is none: from Debian's packages, which only root can do. Its last line
# says why it could not.
set -euo pipefail
for name in chromium chromium-browser google-chrome chromium-headless-shell; do
	! command -v "$name" >/dev/null || exit 0
done
((EUID == 0)) || { echo "Chromium is not installed, and only root can install it" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "Chromium is not installed, and there is no apt-get" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
options=(-q -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=60)
{
	apt-get "${options[@]}" update &&
		# The shell is two thirds of it, and all that a browser without a screen needs.
		{ apt-get "${options[@]}" install -y --no-install-recommends chromium-headless-shell ||
			apt-get "${options[@]}" install -y --no-install-recommends chromium; }
} >&2 || { echo "Chromium could not be installed with apt-get" >&2; exit 1; }
