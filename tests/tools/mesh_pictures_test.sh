#!/usr/bin/env bash
# tools/docs/mesh_pictures.sh draws the pictures of meshes and removes old ones. With --check, the script finds pictures
# that were changed, removed or added. The script ignores other images in the folder.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed() {
  echo "FAILED: $*"
  exit 1
}

images=$folder/docs/reports/images
mkdir -p "$folder/tools/docs" "$images"
cp "$source/tools/docs/mesh_pictures.sh" "$folder/tools/docs"
# Writes a program that draws the text after "--svg FILE".
cat >"$folder/hexad" <<'END'
#!/usr/bin/env bash
while [ "$1" != --svg ]; do shift; done
echo "<svg>${*:3}</svg>" >"$2"
END
chmod +x "$folder/hexad"
export HEXAD=$folder/hexad
draw() { "$folder/tools/docs/mesh_pictures.sh" "$@" >"$folder/out" 2>&1; }

echo "an old picture" >"$images/mesh-removed.svg"
draw || failed "drawing: $(cat "$folder/out")"
[ ! -e "$images/mesh-removed.svg" ] || failed "a picture that is no longer drawn remains"
draw --check || failed "new pictures differ from the stored ones: $(cat "$folder/out")"
echo "a curve" >"$images/losses.svg"
draw --check || failed "another image counts as a changed picture: $(cat "$folder/out")"

for change in 'echo x >>"$images/mesh-folded.svg"' 'rm "$images/mesh-folded.svg"' 'touch "$images/mesh-more.svg"'; do
  draw
  eval "$change"
  ! draw --check || failed "not found: $change"
  text=$(cat "$folder/out")
  [[ $text == *"differ from the new pictures"* ]] || failed "$change: $text"
done
[ "$(cat "$images/losses.svg")" == "a curve" ] || failed "another image has changed"
