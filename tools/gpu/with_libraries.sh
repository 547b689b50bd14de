#!/usr/bin/env bash
# with_libraries.sh COMMAND...: runs it with the programs and libraries that tools/gpu/pack.sh packed, and with NVIDIA's
# libraries as this machine has them: in Python's wheels (nvidia/*/lib) or in the toolkit.
# HEXAD_BUILD: with the programs of that build folder, and the libraries that they were built with.
set -euo pipefail
if [ -n "${HEXAD_BUILD:-}" ]; then
  export PATH=$HEXAD_BUILD/bin:$HEXAD_BUILD/tests:$HEXAD_BUILD/bench:$PATH
  exec "$@"
fi
pack=$(cd "$(dirname "$0")/../.." && pwd)/build/pack
if [ "$pack/hexad.tar.gz" -nt "$pack/unpacked" ]; then
  rm -rf "$pack/unpacked"
  mkdir "$pack/unpacked"
  tar -xzf "$pack/hexad.tar.gz" -C "$pack/unpacked"
  touch "$pack/unpacked"
fi
pack=$pack/unpacked

wheels=$(python3 - 2>/dev/null <<'END' || true
import glob
import nvidia
folders = [f for root in nvidia.__path__ for f in sorted(glob.glob(root + "/*/lib"))]
print(":".join(folders))
END
)
export PATH=$pack/bin:$PATH
export LD_LIBRARY_PATH=$pack/lib:${wheels:+$wheels:}/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -x "$pack/bin/hexad" ]; then  # Open MPI looks for its parts where it was installed
  export OPAL_PREFIX=$pack OMPI_MCA_mca_base_component_path=$pack/openmpi
fi
exec "$@"
