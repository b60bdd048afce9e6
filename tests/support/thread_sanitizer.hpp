// Whether the thread sanitizer is at work: TUTTI_TEST_THREAD_SANITIZER is defined then, by GCC and by Clang.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define TUTTI_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TUTTI_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace tutti::test {

#ifdef TUTTI_TEST_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace tutti::test
