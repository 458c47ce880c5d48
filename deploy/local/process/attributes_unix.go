//go:build unix && !linux

package process

import "syscall"

func attributes(spec Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.User}
}
