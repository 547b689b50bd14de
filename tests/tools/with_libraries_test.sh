#!/usr/bin/env bash
# tools/gpu/with_libraries.sh unpacks a package once, even if several starts need it at the same time. The script never
# uses an incomplete package.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() {
  echo "FAILED: $*"
  exit 1
}

unset HEXAD_BUILD
mkdir -p "$folder/tools/gpu" "$folder/build/pack" "$folder/packed/bin" "$folder/programs"
cp "$source/tools/gpu/with_libraries.sh" "$folder/tools/gpu"
printf '#!/bin/sh\necho packed\n' >"$folder/packed/bin/program"
chmod +x "$folder/packed/bin/program"
tar -czf "$folder/build/pack/hexad.tar.gz" -C "$folder/packed" .

# Writes a slow tar that records its calls. This tar fails while the file `broken` exists.
cat >"$folder/programs/tar" <<END
#!/usr/bin/env bash
echo call >>"$folder/calls"
sleep 0.5
[ ! -e "$folder/broken" ] || exit 2
exec "$(command -v tar)" "\$@"
END
chmod +x "$folder/programs/tar"
# Writes an rm that stops after it has removed a part of a package, if the file `half` exists.
cat >"$folder/programs/rm" <<END
#!/usr/bin/env bash
if [ -e "$folder/half" ]; then
  for path; do
    [ ! -d "\$path/bin" ] || { "$(command -v rm)" -r "\$path/bin"; exit 2; }
  done
fi
exec "$(command -v rm)" "\$@"
END
chmod +x "$folder/programs/rm"
start() { PATH=$folder/programs:$PATH "$folder/tools/gpu/with_libraries.sh" program; }
expect_calls() { [ "$(wc -l <"$folder/calls")" -eq "$1" ] || failed "expected $1 calls of tar, found $(wc -l <"$folder/calls")"; }

start >"$folder/first" &
first=$!
start >"$folder/second" &
second=$!
wait "$first" || failed "the first of two starts ended with $?, expected 0"
wait "$second" || failed "the second of two starts ended with $?, expected 0"
[ "$(cat "$folder/first" "$folder/second" | tr '\n' ' ')" = "packed packed " ] ||
  failed "the starts printed '$(cat "$folder/first" "$folder/second")', expected 'packed' from each"
expect_calls 1
[ "$(start)" = packed ] || failed "a later start did not run the program"
expect_calls 1

touch "$folder/build/pack/hexad.tar.gz" "$folder/broken"
if start >"$folder/out" 2>&1; then failed "a package that could not be unpacked was used, expected an error: $(cat "$folder/out")"; fi
rm "$folder/broken"
[ "$(start)" = packed ] || failed "a start after an interrupted one did not unpack again"
expect_calls 3

touch "$folder/build/pack/hexad.tar.gz" "$folder/half"
start >"$folder/out" 2>&1 || true
rm "$folder/half"
[ "$(start)" = packed ] || failed "a start used a package of which a part had been removed"
expect_calls 4
