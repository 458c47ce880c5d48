package process

import "syscall"

func attributes(spec Spec) *syscall.SysProcAttr {
	orphan := spec.OrphanSignal
	if orphan == 0 {
		orphan = syscall.SIGKILL
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: spec.User, Pdeathsig: orphan}
}
