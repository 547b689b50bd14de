#!/usr/bin/env bash
# Runs the commands of README.md and of the pages in docs/. docs_commands.txt defines how each command is handled.
# Before the first command runs, the test checks that docs_commands.txt lists every command of the pages and no other
# command.
. "$(dirname "$0")/cli.sh"
. "$CLI_TESTS/../docs/page_commands.sh"

# Writes the files that the pages expect in the current folder: links to the sources and to the built program, texts,
# recipes and datasets.
make_desk() {
  local text
  ln -s "$source_folder/recipes" "$source_folder/tools" .
  mkdir -p build/release/bin my-texts
  ln -s "$HEXAD" build/release/bin/hexad
  for text in verify parallelism traffic-and-memory architecture; do
    split -l 30 --additional-suffix=.txt "$source_folder/docs/$text.md" "my-texts/$text-"
  done
  cat >recipe.yaml <<'R'
include: tiny.yaml
batch:
  global: 32
R
  cp tiny.yaml my-model.yaml
  echo 'localhost slots=4' >hosts
  mkdir corpus
  seq -f '{"content": {"text": "line %g of a corpus of JSON lines"}}' 200 | gzip >corpus/a.jsonl.gz
  seq -f '{"prompt": "What follows %g?", "completion": "The next number."}' 200 >chats.jsonl
  cp -r "$source_folder/tests/golden/hf/mixtral" my-model
  seq -f '{"context": "After %g comes", "choices": ["the next number", "nothing"], "gold": 0}' 4 >questions.jsonl
  expect 0 "$HEXAD" prepare --input my-texts --output data/quickstart --vocab 1000
}

# `type_in COMMAND CODE [OUTPUT...]`: runs COMMAND in this shell, so that its exports persist. Expects exit code CODE
# and the lines OUTPUT, except for empty lines and "...".
type_in() {
  local command=$1 wanted=$2 began=$SECONDS line
  shift 2
  eval "$command" >out 2>err </dev/null
  code=$?
  [ "$code" -eq "$wanted" ] || failed "exit code $code, expected $wanted: $command"
  for line in "$@"; do
    [ -n "$line" ] && [ "$line" != ... ] || continue
    grep -qxF -- "$line" out err || failed "the page shows the output line '$line', which this command does not print: $command"
  done
  printf '  %3d s  %s\n' $((SECONDS - began)) "$command"
}

# `follow PAGE COMMAND HOW [OUTPUT...]`: runs or skips the command, as its entry HOW of the table requires.
follow() {
  local page=$1 command=$2 how=$3 wanted=0
  shift 3
  if [ "$page" != "$current_page" ]; then
    current_page=$page
    echo "$page"
  fi
  if [[ $how =~ ^exit\ ([0-9]+)(.*)$ ]]; then
    wanted=${BASH_REMATCH[1]} how=run${BASH_REMATCH[2]}
  fi
  case $how in
  "no command") ;;
  "not run: "*) echo "         not run  $command" ;;
  run) type_in "$command" "$wanted" "$@" ;;
  "run + "*) type_in "$command ${how#run + }" "$wanted" "$@" ;;
  "run s/"*) type_in "$(sed "${how#run }" <<<"$command")" "$wanted" "$@" ;;
  esac
}

test_commands_of_the_pages_work() {
  local current_page=""
  # Uses a subshell, so that the message is shown even if a damaged table ends the check.
  (check_command_table) >differences ||
    failed "the pages and docs_commands.txt differ, expected an entry for each line: $(cat differences)"
  make_desk
  unset "${!OMPI_@}" OMP_NUM_THREADS  # the pages set the variables that their commands need
  PATH=$PWD/build/release/bin:$PATH
  for_each_line follow
}

run_tests "$@"
