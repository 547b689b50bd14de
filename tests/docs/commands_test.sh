#!/usr/bin/env bash
# commands_test.sh: checks the table tests/cli/docs_commands.txt within a second. The table must list every command and
# every other block of README.md, CONTRIBUTING.md and the pages in docs, and nothing else.
# tests/cli/docs_commands_test.sh runs the commands.
set -euo pipefail

failed() {
  echo "$*"
  exit 1
}
. "$(dirname "$0")/page_commands.sh"
check_command_table
