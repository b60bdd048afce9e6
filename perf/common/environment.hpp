// Environment variables of the perf programs: TUTTI_TESTS_name, or nccl-tests' NCCL_TESTS_name if that is not set.
#pragma once

#include <string>

namespace tutti::perf {

/// "" if neither is set.
std::string testsVariable(const std::string& name);

/// `otherwise` if not set.  checkTestsVariables() has seen to it that it is a number.
double testsNumber(const std::string& name, double otherwise);

/// What is wrong with one that is set, or that no program knows a TUTTI_TESTS_ name; "": nothing.
std::string checkTestsVariables();

}  // namespace tutti::perf
