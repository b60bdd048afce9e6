// What src/control/launch/pmix_abi.hpp declares, held against PMIx's headers where there are any.
#include <pmix.h>
#include <pmix_deprecated.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "src/control/launch/pmix_abi.hpp"

namespace {

using namespace tutti::pmix;

static_assert(std::is_same_v<PmixStatus, pmix_status_t>);
static_assert(kSuccess == PMIX_SUCCESS && kErrorTimeout == PMIX_ERR_TIMEOUT);
static_assert(kErrorUnreachable == PMIX_ERR_UNREACH && kErrorInvalidNamespace == PMIX_ERR_INVALID_NAMESPACE);
static_assert(kBool == PMIX_BOOL && kString == PMIX_STRING && kInt == PMIX_INT && kUint32 == PMIX_UINT32);
static_assert(kGlobalScope == PMIX_GLOBAL && kAnyRank == PMIX_RANK_WILDCARD);
static_assert(sizeof(pmix_data_type_t) == 2 && sizeof(pmix_scope_t) == 1 && sizeof(pmix_rank_t) == 4);

static_assert(sizeof(Process) == sizeof(pmix_proc_t) && alignof(Process) == alignof(pmix_proc_t));
static_assert(offsetof(Process, nameSpace) == offsetof(pmix_proc_t, nspace));
static_assert(offsetof(Process, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof Process::nameSpace == sizeof pmix_proc_t::nspace);

static_assert(sizeof(Value) == sizeof(pmix_value_t) && alignof(Value) == alignof(pmix_value_t));
static_assert(offsetof(Value, type) == offsetof(pmix_value_t, type));
static_assert(offsetof(Value, data) == offsetof(pmix_value_t, data));

static_assert(sizeof(Info) == sizeof(pmix_info_t) && alignof(Info) == alignof(pmix_info_t));
static_assert(offsetof(Info, key) == offsetof(pmix_info_t, key));
static_assert(offsetof(Info, flags) == offsetof(pmix_info_t, flags));
static_assert(offsetof(Info, value) == offsetof(pmix_info_t, value));
static_assert(sizeof Info::key == sizeof pmix_info_t::key);

template <class A, class B>
constexpr bool passedAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class RA, class... A, class RB, class... B>
constexpr bool calledAlike(RA (*)(A...), RB (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return passedAlike<RA, RB> && (passedAlike<A, B> && ...);
  } else {
    return false;
  }
}

#define CHECK_CALL(name, result, parameters)                                                                      \
  static_assert(calledAlike(static_cast<result(*) parameters>(nullptr), static_cast<decltype(&::name)>(nullptr)), \
                #name);
TUTTI_PMIX_FUNCTIONS(CHECK_CALL)

TEST_CASE("the names by which PMIx is asked are those of its header") {
  // The rest is checked by the compiler.
  CHECK(std::string_view(kJobSize) == PMIX_JOB_SIZE);
  CHECK(std::string_view(kCollectData) == PMIX_COLLECT_DATA);
  CHECK(std::string_view(kTimeoutSeconds) == PMIX_TIMEOUT);
}

}  // namespace
