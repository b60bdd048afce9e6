// The main program of every *_perf binary; the build defines which collective it is.
#include "perf/common/run.hpp"

int main(int argc, char** argv) { return tutti::perf::run(argc, argv, tutti::perf::TUTTI_PERF_COLLECTIVE); }
