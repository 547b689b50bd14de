# Functions for scripts that start ranks on this machine by the command mpirun. This command may belong to Open MPI,
# MPICH or Intel MPI. Scripts source this file.

# Prints the beginning of the output of `mpirun --version`, in which launchers name themselves.
launcher_version() {
  local text
  text=$(mpirun --version 2>&1 </dev/null) || true
  text=${text//$'\n'/ }
  printf '%s\n' "${text:0:80}"
}

# Prints openmpi, mpich (also for Intel MPI), or nothing.
launcher_family() {
  case $(launcher_version) in
  *'Open MPI'* | *OpenRTE* | *PRRTE*) echo openmpi ;;
  *HYDRA* | *MPICH* | *'Intel(R) MPI'*) echo mpich ;;
  esac
}

# set_launcher N [NAME VALUE]...: sets the array `mpi` to a command that starts N ranks, even if the machine has fewer
# cores. If mpirun is Open MPI's, the command sets each MCA parameter NAME to VALUE. A rank finds its number in
# ${OMPI_COMM_WORLD_RANK:-$PMI_RANK}. Exits if mpirun is unknown.
set_launcher() {
  mpi=(mpirun -np "$1")
  shift
  case $(launcher_family) in
  openmpi)
    mpi+=(--oversubscribe --bind-to none)
    while [ $# -gt 0 ]; do
      mpi+=(--mca "$1" "$2")
      shift 2
    done
    if [ "$(id -u)" -eq 0 ]; then mpi+=(--allow-run-as-root); fi
    ;;
  mpich) ;;
  *)
    echo "$(basename "$0"): mpirun is '$(launcher_version)', expected that of Open MPI, MPICH or Intel MPI" >&2
    exit 1
    ;;
  esac
}

# require_open_mpi REASON: exits if mpirun does not belong to Open MPI.
require_open_mpi() {
  if [ "$(launcher_family)" = openmpi ]; then return; fi
  echo "$(basename "$0"): mpirun is '$(launcher_version)', expected that of Open MPI (Debian: openmpi-bin): $1" >&2
  exit 1
}
