// "tp=2,cp=1,pp=4,dp=0".
#pragma once

#include <string>
#include <vector>

namespace tutti::parallel {

struct Axis {
  std::string name;
  int size;
};

std::vector<std::string> splitText(const std::string& text, char separator);
/// "tp=1,dp=0" as it stands; throws if a name is none or a number is not one.
std::vector<Axis> parsePairs(const std::string& text);
/// As above, with a size of 0 filled in; throws unless the product is nRanks.
std::vector<Axis> parseAxes(const std::string& text, int nRanks);

}  // namespace tutti::parallel
