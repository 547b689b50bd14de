#!/usr/bin/env bash
# commands_test.sh: checks in a second that tests/cli/docs_commands.txt lists the commands and all other blocks of README.md,
# CONTRIBUTING.md and the pages in docs, and nothing else. tests/cli/docs_commands_test.sh runs these commands.
set -euo pipefail

failed() {
  echo "$*"
  exit 1
}
. "$(dirname "$0")/page_commands.sh"
check_command_table
