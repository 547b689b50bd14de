#!/usr/bin/env bash
# tools/gpu/profile.sh reports the exit code of hexad, and whether hexad wrote a profile.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() {
  echo "FAILED: $*"
  exit 1
}

mkdir -p "$folder/tools/gpu" "$folder/build/pack/unpacked/lib"
cp "$source/tools/gpu/profile.sh" "$folder/tools/gpu"
touch "$folder/build/pack/unpacked/lib/libhexad_gpu_profile.so"
# Writes a with_libraries.sh whose hexad writes a log and exits with code $ends_with. It also writes a profile if
# $writes is yes.
cat >"$folder/tools/gpu/with_libraries.sh" <<'END'
#!/usr/bin/env bash
[ "$1" = hexad ] || exit 0
echo "the log"
[ "$writes" = no ] || echo "the profile" | tee "$HEXAD_GPU_PROFILE.json" >"$HEXAD_GPU_PROFILE.txt"
exit "$ends_with"
END
chmod +x "$folder/tools/gpu/with_libraries.sh"
out=$folder/out

# `expect RESULT WRITES CODE TEXT`: expects the script to exit with CODE and to print TEXT, if hexad exits with RESULT.
# The hexad of this test writes a profile if WRITES is yes.
expect() {
  local code=0 said
  said=$(ends_with=$1 writes=$2 "$folder/tools/gpu/profile.sh" "$out" recipe.yaml 2>&1) || code=$?
  [ "$code" -eq "$3" ] || failed "the script exited with $code, expected $3: $said"
  [ "$said" = "$4" ] || failed "the script printed '$said', expected '$4'"
}
expect 0 yes 0 "the profile"
expect 4 yes 1 "the log
profile: hexad ended with exit code 4; the end of $out/train.log is above"
expect 4 no 1 "the log
profile: hexad ended with exit code 4 and wrote no profile; the end of $out/train.log is above"
expect 0 no 1 "the log
profile: hexad ended with exit code 0 and wrote no profile; the end of $out/train.log is above"
