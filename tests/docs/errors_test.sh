#!/bin/sh
# docs/errors.md is what the tables of errors give.  usage: errors_test.sh TUTTI_INFO ERRORS_MD
"$1" --explain all --markdown | diff -u "$2" - && exit 0
echo "docs/errors.md is out of date: tutti-info --explain all --markdown > docs/errors.md"
exit 1
