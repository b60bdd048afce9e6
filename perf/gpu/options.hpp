// What gpu_bench is asked for on its command line.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace tutti::gpuperf {

struct Options {
  std::vector<int> ranks{1, 2, 4, 8};
  std::vector<int> devices{0};  // rank r is on devices[r % devices.size()]
  size_t minBytes = 8;
  size_t maxBytes = size_t{1} << 30;
  int calls = 50;        // in a round, at most; large sizes take fewer
  std::string only;      // this collective; empty: all
  double seconds = 240;  // no case is begun after that
  std::string ncclPath;  // of a library with NCCL's functions to measure too; empty: none
};

[[noreturn]] inline void stop(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

inline size_t parseBytes(const char* text) {
  char* end = nullptr;
  const size_t number = std::strtoull(text, &end, 10);
  const size_t unit = *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : *end == 'G' ? 1 << 30 : 1;
  if (number == 0) stop(std::string("not a size: ") + text);
  return number * unit;
}

/// Numbers between commas, each from least to most.
inline std::vector<int> parseNumbers(const char* text, int least, int most) {
  std::vector<int> numbers;
  for (const char* at = text; at != nullptr; at = std::strchr(at, ',')) {
    numbers.push_back(std::atoi(*at == ',' ? ++at : at));
    if (numbers.back() < least || numbers.back() > most) {
      stop(std::string(text) + " has a number that is not from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
  }
  return numbers;
}

inline Options parse(int argc, char** argv) {
  Options o;
  if (argc % 2 == 0) stop(std::string("what is the value of ") + argv[argc - 1] + "?");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--ranks") {
      o.ranks = parseNumbers(value, 1, 16);
    } else if (name == "--devices") {
      o.devices = parseNumbers(value, 0, 63);
    } else if (name == "--min") {
      o.minBytes = parseBytes(value);
    } else if (name == "--max") {
      o.maxBytes = parseBytes(value);
    } else if (name == "--calls") {
      o.calls = parseNumbers(value, 1, 1'000'000)[0];
    } else if (name == "--seconds") {
      o.seconds = std::atof(value);
    } else if (name == "--only") {
      o.only = value;
    } else if (name == "--nccl") {
      o.ncclPath = value;
    } else {
      stop("unknown option " + name + "; there are --ranks --devices --min --max --calls --seconds --only --nccl");
    }
  }
  return o;
}

}  // namespace tutti::gpuperf
