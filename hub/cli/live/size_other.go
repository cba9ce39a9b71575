//go:build !unix

package live

import (
	"context"
	"os"
)

// canRedraw is false: a console may print the sequences of a screen. Changes are printed one below the other.
const canRedraw = false

func sizeOf(*os.File) (width, height int) { return 0, 0 }

func notifyResized(context.Context) <-chan os.Signal { return nil }
