#!/usr/bin/env bash
# with_libraries.sh COMMAND...: runs COMMAND with the programs and libraries packed by tools/gpu/pack.sh. Uses this
# machine's NVIDIA libraries from Python wheels (nvidia/*/lib) or from the CUDA toolkit. HEXAD_BUILD: uses the programs
# of that build folder, and the libraries with which they were built.
set -euo pipefail
if [ -n "${HEXAD_BUILD:-}" ]; then
  export PATH=$HEXAD_BUILD/bin:$HEXAD_BUILD/tests:$HEXAD_BUILD/bench:$PATH
  exec "$@"
fi
pack=$(cd "$(dirname "$0")/../.." && pwd)/build/pack
is_outdated() { [ "$pack/hexad.tar.gz" -nt "$pack/unpacked" ]; }
if is_outdated; then
  ( # the first rank unpacks; other ranks wait and then find a complete folder
    flock 9
    is_outdated || exit 0
    rm -rf "$pack/unpacking" "$pack/replaced"
    mkdir "$pack/unpacking"
    tar -xzf "$pack/hexad.tar.gz" -C "$pack/unpacking"
    touch "$pack/unpacking"
    # Moves the old folder first, because a folder whose files are being removed counts as newer than the package.
    [ ! -e "$pack/unpacked" ] || mv "$pack/unpacked" "$pack/replaced"
    mv "$pack/unpacking" "$pack/unpacked"
    rm -rf "$pack/replaced"
  ) 9>"$pack/lock"
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
if [ -x "$pack/bin/hexad" ]; then  # without these variables, Open MPI searches the folder of its installation
  export OPAL_PREFIX=$pack OMPI_MCA_mca_base_component_path=$pack/openmpi
fi
exec "$@"
