#include "perf/common/options.hpp"

#include <dlfcn.h>
#include <getopt.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tools/version.hpp"

namespace tutti::perf {
namespace {

struct Flag {
  char letter;  // 0: long name only
  const char* name;
  const char* argument;
  const char* meaning;
  int value = 0;  // of a flag that has no letter
};

// Values of flags that have no letter.
constexpr int kPlot = 1000;
constexpr int kVersion = 1001;
constexpr int kFresh = 1002;
constexpr int kAdopt = 1003;

constexpr Flag kFlags[] = {
    {'t', "nthreads", "N", "ranks per process, one thread each (1)"},
    {'g', "ngpus", "N", "ranks per thread, driven in one group (1)"},
    {'b', "minbytes", "SIZE", "smallest size (32M); suffixes K, M, G"},
    {'e', "maxbytes", "SIZE", "largest size (32M)"},
    {'i', "stepbytes", "SIZE", "increment between sizes (1M)"},
    {'f', "stepfactor", "N", "factor between sizes, instead of the increment"},
    {'n', "iters", "N", "timed calls per row (20)"},
    {'w', "warmup_iters", "N", "calls before them (1)"},
    {'m', "agg_iters", "N", "calls per group (1)"},
    {'N', "run_cycles", "N", "times to run everything (1; 0: for ever)"},
    {'p', "parallel_init", "0/1", "0: one thread joins for all ranks of its process, in a group (1)"},
    {'c', "check", "N", "checked calls per row; 0: no check (1)"},
    {'o', "op", "NAME", "sum prod min max avg mulsum band bor bxor land lor, a,b,c or all (sum)"},
    {'d', "datatype", "NAME",
     "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 int16 uint16 bool, a,b,c or all "
     "(float)"},
    {'r', "root", "N/all", "root rank (0)"},
    {'z', "blocking", "0..3", "above 0: ranks meet after every call (0)"},
    {'y', "stream_null", "0/1", "0: a host stream per rank; 1: calls run on the caller's thread (1)"},
    {'T', "timeout", "SECONDS", "deadline of every wait (the library's own)"},
    {'G', "cudagraph", "N", "CUDA graphs; host memory has none"},
    {'C', "report_cputime", "0/1", "report the processor time of the calling thread instead of the elapsed time (0)"},
    {'a', "average", "0..3", "over ranks: 0 rank 0's, 1 mean, 2 min, 3 max (1)"},
    {'R', "local_register", "0/1/2", "1: buffers from tuttiMemAlloc, registered with the communicator (0)"},
    {'x', "cta_policy", "N", "ignored on host memory"},
    {'D', "device_implementation", "N", "device kernels; host memory has none"},
    {'V', "device_cta_count", "N", "ignored on host memory"},
    {'S', "report_timestamps", "0/1", "a column with the time of day (0)"},
    {'J', "output_file", "FILE", "write the results as JSON"},
    {'M', "memory", "0/1", "report the memory used (0)"},
    {'u', "unalign", "BYTES", "buffers begin this far behind an aligned address (0)"},
    {'I', "per_iter_timing", "0/1", "columns for the spread of single calls (0)"},
    {'K', "per_iter_skip", "N", "leave out the first N calls there (0)"},
    {0, "adopt", nullptr,
     "buffers of malloc, registered with the communicator, which then moves them into shared memory", kAdopt},
    {0, "fresh", nullptr, "write new data before each call but the first, outside of the time", kFresh},
    {0, "plot", "FILE.svg", "draw bus bandwidth over size, what 8 of 10 calls reached, and what was expected", kPlot},
    {'h', "help", nullptr, "this text"},
    {0, "version", nullptr, "the version", kVersion},
};

std::string usage(const char* program) {
  std::string text = std::string("usage: ") + program + " [flags]\n";
  for (const Flag& f : kFlags) {
    std::string line = f.letter != 0 ? std::string("  -") + f.letter + ", --" + f.name : std::string("  --") + f.name;
    if (f.argument != nullptr) line += std::string(" ") + f.argument;
    line.resize(std::max<size_t>(line.size() + 1, 36), ' ');
    text += line + f.meaning + "\n";
  }
  return text;
}

// A complaint, or "" if the flag was understood.
using Complaint = std::string;

Complaint wantNumber(const char* flag, const std::string& value, long least, long most, int* out) {
  long number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most) {
    return std::string("--") + flag + " wants a whole number from " + std::to_string(least) + " to " +
           std::to_string(most) + ", not '" + value + "'";
  }
  *out = static_cast<int>(number);
  return "";
}

Complaint wantFlag(const char* flag, const std::string& value, bool* out) {
  int number = 0;
  Complaint c = wantNumber(flag, value, 0, 1, &number);
  *out = number == 1;
  return c;
}

Complaint wantSize(const char* flag, const std::string& value, size_t* out) {
  const std::optional<size_t> bytes = parseSize(value);
  if (!bytes) return std::string("--") + flag + " wants a size such as 8, 64K or 1M, not '" + value + "'";
  *out = *bytes;
  return "";
}

template <class Info, class Find, class All>
Complaint wantNames(const char* flag, const std::string& value, Find find, All all, std::vector<Info>* out) {
  out->clear();
  if (value == "all") {
    out->assign(all.begin(), all.end());
    return "";
  }
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    const std::string name = value.substr(begin, end - begin);
    const Info* info = find(name);
    if (info == nullptr) {
      std::string known;
      for (const Info& one : all) known += std::string(known.empty() ? "" : ", ") + one.name;
      return std::string("--") + flag + ": '" + name + "' is unknown; there are all, " + known;
    }
    out->push_back(*info);
    begin = end + 1;
  }
  return "";
}

Complaint ignored(Options* o, const char* flag, const std::string& value) {
  o->notes.push_back(std::string("--") + flag + " " + value + " has no meaning on host memory and was ignored");
  return "";
}

Complaint setRoot(Options* o, const std::string& value) {
  o->allRoots = value == "all" || value == "-1";
  return o->allRoots ? "" : wantNumber("root", value, 0, 1 << 20, &o->root);
}

Complaint setRegistration(Options* o, const std::string& value) {
  Complaint c = wantNumber("local_register", value, 0, 2, &o->registration);
  if (o->registration == 2)
    o->notes.push_back("--local_register 2: symmetric windows are device memory's, same as 1 here");
  return c;
}

Complaint setBlocking(Options* o, const std::string& value) {
  Complaint c = wantNumber("blocking", value, 0, 3, &o->blocking);
  if (o->blocking > 1) o->notes.push_back("--blocking " + value + " is the same as 1 on host memory");
  return c;
}

Complaint setAverage(Options* o, const std::string& value) {
  int number = 1;
  Complaint c = wantNumber("average", value, 0, 3, &number);
  o->average = static_cast<Average>(number);
  return c;
}

Complaint deviceOnly(const char* flag, const char* what, Options* o, const std::string& value) {
  int number = 0;
  Complaint c = wantNumber(flag, value, 0, 1 << 20, &number);
  if (c.empty() && number > 0) c = std::string("--") + flag + ": " + what + " and this communicator is on host memory";
  (void)o;
  return c;
}

Complaint set(Options* o, int letter, const std::string& v) {
  const int many = 1 << 30;
  int number = 0;
  Complaint c;
  switch (letter) {
    case 't': return wantNumber("nthreads", v, 1, 4096, &o->threads);
    case 'g': return wantNumber("ngpus", v, 1, 4096, &o->ranksPerThread);
    case 'b': return wantSize("minbytes", v, &o->minBytes);
    case 'e': return wantSize("maxbytes", v, &o->maxBytes);
    case 'i': return wantSize("stepbytes", v, &o->stepBytes);
    case 'f': return wantSize("stepfactor", v, &o->stepFactor);
    case 'n': return wantNumber("iters", v, 1, many, &o->iterations);
    case 'w': return wantNumber("warmup_iters", v, 0, many, &o->warmup);
    case 'm': return wantNumber("agg_iters", v, 1, many, &o->aggregate);
    case 'N': return wantNumber("run_cycles", v, 0, many, &o->cycles);
    case 'p': return wantFlag("parallel_init", v, &o->parallelInit);
    case 'c': return wantNumber("check", v, 0, many, &o->checks);
    case 'o': return wantNames("op", v, findOp, allOps(), &o->ops);
    case 'd': return wantNames("datatype", v, findType, allTypes(), &o->types);
    case 'r': return setRoot(o, v);
    case 'z': return setBlocking(o, v);
    case 'y': return wantFlag("stream_null", v, &o->nullStream);
    case 'T': return wantNumber("timeout", v, 0, 1 << 20, &o->timeoutS);
    case 'G': return deviceOnly("cudagraph", "graphs need CUDA", o, v);
    case 'D': return deviceOnly("device_implementation", "device kernels need CUDA", o, v);
    case 'C': return wantFlag("report_cputime", v, &o->cpuTime);
    case 'a': return setAverage(o, v);
    case 'R': return setRegistration(o, v);
    case 'x': return ignored(o, "cta_policy", v);
    case 'V': return ignored(o, "device_cta_count", v);
    case 'S': return wantFlag("report_timestamps", v, &o->timestamps);
    case 'J': o->jsonPath = v; return "";
    case kPlot: o->plotPath = v; return "";
    case kAdopt: o->adopt = true; return "";
    case kFresh: o->fresh = true; return "";
    case 'M': return wantFlag("memory", v, &o->reportMemory);
    case 'u':
      c = wantNumber("unalign", v, 0, 4096, &number);
      o->misalignBytes = static_cast<size_t>(number);
      return c;
    case 'I': return wantFlag("per_iter_timing", v, &o->perIteration);
    case 'K': return wantNumber("per_iter_skip", v, 0, many, &o->skipIterations);
    default: return "unknown flag";
  }
}

// What single flags cannot know.
Complaint checkTogether(const Options& o, bool reduces) {
  if (o.minBytes > o.maxBytes) return "--minbytes is larger than --maxbytes";
  if (o.stepFactor <= 1 && o.stepBytes == 0 && o.minBytes < o.maxBytes) return "--stepbytes 0 never reaches --maxbytes";
  if (o.stepFactor > 1 && o.minBytes == 0 && o.maxBytes > 0) return "--minbytes 0 times a factor stays 0";
  if (o.perIteration && o.skipIterations >= o.iterations) return "--per_iter_skip leaves no call of --iters";
  if (o.adopt && o.registration > 0)
    return "--adopt registers memory of malloc, --local_register that of tuttiMemAlloc";
  if (o.fresh && o.cpuTime) return "--fresh times single calls, which --report_cputime does not";
  if (!reduces) return "";
  for (const OpInfo& op : o.ops) {
    for (const TypeInfo& type : o.types) {
      if (opTakesType(op, type)) return "";
    }
  }
  return std::string("operator ") + o.ops.front().name + " is not defined on " + o.types.front().name;
}

}  // namespace

std::optional<size_t> parseSize(const std::string& text) {
  if (text.empty() || !(text[0] >= '0' && text[0] <= '9')) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  double unit = 1;
  if (*end != '\0') {
    const char* units = "kKmMgGtT";
    const char* found = std::strchr(units, *end);
    if (found == nullptr) return std::nullopt;
    unit = std::ldexp(1.0, 10 * (1 + static_cast<int>(found - units) / 2));
    ++end;
  }
  if (*end != '\0' || !std::isfinite(number) || number * unit >= 9.0e18) return std::nullopt;
  return static_cast<size_t>(number * unit);
}

std::vector<size_t> sweepSizes(const Options& o) {
  std::vector<size_t> sizes;
  for (size_t bytes = o.minBytes; bytes <= o.maxBytes;) {
    sizes.push_back(bytes);
    const size_t next = o.stepFactor > 1 ? bytes * o.stepFactor : bytes + o.stepBytes;
    if (next <= bytes) break;  // no step, or past the largest number
    bytes = next;
  }
  return sizes;
}

ParsedOptions parseOptions(int argc, char** argv, bool reduces) {
  std::string letters = ":";
  std::vector<option> longFlags;
  for (const Flag& f : kFlags) {
    const int takes = f.argument != nullptr ? required_argument : no_argument;
    if (f.letter != 0) letters += std::string(1, f.letter) + (f.argument != nullptr ? ":" : "");
    longFlags.push_back({f.name, takes, nullptr, f.letter != 0 ? f.letter : f.value});
  }
  longFlags.push_back({});
  Options o;
  o.ops = {*findOp("sum")};
  o.types = {*findType("float")};
  const auto refuse = [&](const std::string& why) {
    return ParsedOptions{std::nullopt, 1, std::string(argv[0]) + ": " + why + "\n"};
  };
  optind = 0;  // start anew: tests parse many lines
  opterr = 0;
  for (int letter; (letter = getopt_long(argc, argv, letters.c_str(), longFlags.data(), nullptr)) != -1;) {
    if (letter == 'h') return {std::nullopt, 0, usage(argv[0])};
    if (letter == kVersion) return {std::nullopt, 0, programVersion(argv[0]) + "\n"};
    if (letter == '?') return refuse(std::string("unknown flag '") + argv[optind - 1] + "' (see --help)");
    if (letter == ':') return refuse(std::string("flag '") + argv[optind - 1] + "' wants a value");
    const Complaint c = set(&o, letter, optarg != nullptr ? optarg : "");
    if (!c.empty()) return refuse(c);
  }
  if (optind < argc) return refuse(std::string("unexpected argument '") + argv[optind] + "'");
  const Complaint c = checkTogether(o, reduces);
  if (!c.empty()) return refuse(c);
  return {std::move(o), 0, ""};
}

std::string memoryName(const Options& options) {
  if (options.registration > 0) return "tuttiMemAlloc, registered";
  const char* source = dlsym(RTLD_DEFAULT, "tuttiMallocFind") != nullptr ? "libtutti_malloc.so" : "malloc";
  return options.adopt ? std::string(source) + ", registered" : source;
}

}  // namespace tutti::perf
