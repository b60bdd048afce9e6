// layer_perf: what the training layers take beside what is computed; see README.md.
//   layer_perf attention [--tokens A,B,...]
//   layer_perf steps [--width N] [--layers N] [--rows N] [--steps N] [--rounds N] [--dp-only]    (under tutti-run)
#include <cstring>
#include <sstream>

#include "perf/layers/layers.hpp"
#include "tools/version.hpp"

using namespace tutti::perf;

namespace {

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr,
               "layer_perf: %s\nlayer_perf attention [--tokens A,B,...]\nlayer_perf steps [--width N] [--layers N] "
               "[--rows N] [--steps N] [--rounds N] [--dp-only]\n",
               why.c_str());
  std::exit(1);
}

int64_t numberOf(const std::string& text) {
  char* end = nullptr;
  const long long x = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || x < 1 || x > (1 << 20)) refuse(text + " is no number from 1 to 1048576");
  return x;
}

LayerOptions parse(int argc, char** argv) {
  LayerOptions o;
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--dp-only") {
      o.dpOnly = true;
      continue;
    }
    if (i + 1 == argc) refuse(flag + " takes a value");
    const std::string value = argv[++i];
    if (flag == "--tokens") {
      o.tokens.clear();
      std::istringstream list(value);
      for (std::string one; std::getline(list, one, ',');) o.tokens.push_back(numberOf(one));
    } else if (flag == "--steps") {
      o.steps = static_cast<int>(numberOf(value));
    } else if (flag == "--rounds") {
      o.rounds = static_cast<int>(numberOf(value));
    } else if (int64_t* number = flag == "--width"    ? &o.width
                                 : flag == "--layers" ? &o.layers
                                 : flag == "--rows"   ? &o.rows
                                                      : nullptr) {
      *number = numberOf(value);
    } else {
      refuse("there is no " + flag);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  if (argc < 2) refuse("what is to be measured?");
  const LayerOptions options = parse(argc, argv);
  try {
    if (std::strcmp(argv[1], "attention") == 0) {
      measureAttention(options);
    } else if (std::strcmp(argv[1], "steps") == 0) {
      measureSteps(options);
    } else {
      refuse(std::string("there is no ") + argv[1]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "layer_perf: %s\n", error.what());
    return 3;
  }
  return 0;
}
