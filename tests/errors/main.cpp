// Prints what the library says of many mistakes: a line each, the name, a tab, the message.
#include <cstdio>

#include "tests/errors/cases.hpp"

int main() {
  tutti::errors::Cases cases;
  addProcessCases(&cases);
  addArgumentCases(&cases);
  addRankCases(&cases);
  for (const auto& [name, text] : cases.all()) std::printf("%s\t%s\n", name.c_str(), text.c_str());
  return 0;
}
