#!/bin/sh
# docs/environment.md is what the table of variables gives.  usage: environment_test.sh TUTTI_INFO ENVIRONMENT_MD
"$1" --config --markdown | diff -u "$2" - && exit 0
echo "docs/environment.md is out of date: tutti-info --config --markdown > docs/environment.md"
exit 1
