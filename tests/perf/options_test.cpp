#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "perf/common/options.hpp"
#include "perf/common/run.hpp"

using namespace tutti::perf;

namespace {

ParsedOptions parse(std::vector<std::string> arguments, bool reduces = true) {
  arguments.insert(arguments.begin(), "x_perf");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  return parseOptions(static_cast<int>(arguments.size()), argv.data(), reduces);
}

}  // namespace

TEST_CASE("sizes are read with binary suffixes") {
  struct Row {
    const char* text;
    long bytes;  // -1: refused
  };
  const auto row = GENERATE(values<Row>({{"8", 8},
                                         {"0", 0},
                                         {"64K", 65536},
                                         {"64k", 65536},
                                         {"1M", 1 << 20},
                                         {"2g", 2L << 30},
                                         {"1.5M", 3 << 19},
                                         {"1T", 1L << 40},
                                         {"", -1},
                                         {"M", -1},
                                         {"-8", -1},
                                         {"8KB", -1},
                                         {"1x", -1},
                                         {"1e99", -1},
                                         {"nan", -1}}));
  CAPTURE(row.text);
  const auto bytes = parseSize(row.text);
  CHECK((bytes ? static_cast<long>(*bytes) : -1) == row.bytes);
}

TEST_CASE("a sweep goes by factor if there is one, else by increment, and includes the end") {
  CHECK(sweepSizes(*parse({"-b", "8", "-e", "128", "-f", "2"}).options) == std::vector<size_t>{8, 16, 32, 64, 128});
  CHECK(sweepSizes(*parse({"-b", "8", "-e", "129", "-f", "4"}).options) == std::vector<size_t>{8, 32, 128});
  CHECK(sweepSizes(*parse({"-b", "1M", "-e", "3M"}).options) == std::vector<size_t>{1 << 20, 2 << 20, 3 << 20});
  CHECK(sweepSizes(*parse({"-b", "0", "-e", "20", "-i", "10"}).options) == std::vector<size_t>{0, 10, 20});
  CHECK(sweepSizes(*parse({}).options) == std::vector<size_t>{32 << 20});
  CHECK(sweepSizes(*parse({"-b", "1", "-e", "8000000T", "-f", "1T"}).options).size() == 2);  // no overflow
}

TEST_CASE("the defaults are those of nccl-tests") {
  const Options o = *parse({}).options;
  CHECK(o.threads == 1);
  CHECK(o.ranksPerThread == 1);
  CHECK(o.iterations == 20);
  CHECK(o.warmup == 1);
  CHECK(o.aggregate == 1);
  CHECK(o.checks == 1);
  CHECK(o.cycles == 1);
  CHECK(o.average == Average::Mean);
  CHECK(std::string(o.ops.at(0).name) == "sum");
  CHECK(std::string(o.types.at(0).name) == "float");
}

TEST_CASE("every flag of nccl-tests is taken, short and long") {
  const Options o =
      *parse({"-t", "2", "-g", "3",      "-n", "5",           "-w", "0",   "-m", "2", "-N", "0", "-p",     "0",
              "-c", "0", "-o", "all",    "-d", "half,double", "-r", "all", "-z", "2", "-y", "0", "-T",     "9",
              "-G", "0", "-C", "1",      "-a", "3",           "-R", "2",   "-x", "1", "-D", "0", "-V",     "16",
              "-S", "1", "-J", "o.json", "-M", "1",           "-u", "3",   "-I", "1", "-K", "2", "--plot", "p.svg"})
           .options;
  CHECK(o.threads * o.ranksPerThread == 6);
  CHECK(o.cycles == 0);
  CHECK(o.ops.size() == allOps().size());
  CHECK(o.types.size() == 2);
  CHECK(o.allRoots);
  CHECK(o.average == Average::Max);
  CHECK(o.jsonPath == "o.json");
  CHECK(o.plotPath == "p.svg");
  CHECK(!o.fresh);
  CHECK(parse({"--fresh"}).options->fresh);
  CHECK(o.notes.size() == 4);  // -z 2, -R 2, -x and -V mean nothing more here, and the header says so
  const Options l = *parse({"--nthreads", "2", "--ngpus=3", "--minbytes", "8", "--maxbytes", "1M", "--stepfactor", "2",
                            "--per_iter_timing", "1", "--report_cputime", "1", "--output_file", "x"})
                         .options;
  CHECK(l.ranksPerThread == 3);
  CHECK(l.stepFactor == 2);
  CHECK(l.cpuTime);
}

TEST_CASE("a wrong command line is refused with a sentence") {
  struct Row {
    std::vector<std::string> arguments;
    const char* says;
  };
  const std::vector<Row> rows = {
      {{"-n", "x"}, "--iters wants a whole number"},
      {{"-t", "0"}, "--nthreads"},
      {{"-b", "8Q"}, "--minbytes wants a size"},
      {{"-b", "2M", "-e", "1M"}, "--minbytes is larger"},
      {{"-b", "0", "-e", "8", "-f", "2"}, "stays 0"},
      {{"-b", "0", "-e", "8", "-i", "0"}, "never reaches"},
      {{"-o", "sun"}, "'sun' is unknown"},
      {{"-d", "float,fp64"}, "'fp64' is unknown"},
      {{"-d", "float", "-o", "bxor"}, "not defined"},
      {{"-G", "1"}, "CUDA"},
      {{"-D", "1"}, "CUDA"},
      {{"-I", "1", "-K", "20"}, "leaves no call"},
      {{"-n"}, "wants a value"},
      {{"--nonsense"}, "unknown flag"},
      {{"extra"}, "unexpected argument 'extra'"},
  };
  for (const Row& row : rows) {
    const ParsedOptions p = parse(row.arguments);
    CAPTURE(row.says, p.text);
    CHECK_FALSE(p.options);
    CHECK(p.exitCode == 1);
    CHECK(p.text.find(row.says) != std::string::npos);
  }
}

TEST_CASE("help is not an error and names every flag") {
  const ParsedOptions p = parse({"--help"});
  CHECK(p.exitCode == 0);
  for (const char* flag : {"-b,", "-K,", "--plot", "--device_cta_count"}) CHECK(p.text.find(flag) != std::string::npos);
}
