// Release makes images and releases of the commit that the repository is at. It needs Go and git, and no container engine.
//
//	release image [-out FOLDER] [-platforms LIST] [-push REFERENCE]
//	    The two images, plain and slim, in an OCI layout, or in a registry under REFERENCE and REFERENCE-slim.
//	release dist -version v1.2.3 [-out FOLDER]
//	    A release: binaries, images, chart, bill of materials, notes, checksums. It refuses a commit without the tag of the
//	    version, files that differ from the commit's, and a version that CHANGELOG.md does not have.
//
// The same commit and the same Go give the same files.
package main
