//go:build tools

// Package multus names the program that this module is for.
package multus

import _ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
