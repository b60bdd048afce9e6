// The congestion control that perf/compare gives to the sockets of Tutti's peers.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string controlOfNew(int domain, int type) {
  const int fd = socket(domain, type, 0);
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  const bool has = fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0;
  close(fd);
  return has ? name : "none";
}

/// The exit status of a process that makes a socket.
int statusOfNew(int domain, int type) {
  const pid_t child = fork();
  if (child == 0) {
    (void)freopen("/dev/null", "w", stderr);
    _exit(socket(domain, type, 0) >= 0 ? 0 : 7);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("compare: tcp sockets get the control that is asked for, whatever flags they are made with") {
  unsetenv("COMPARE_CONGESTION");
  const std::string own = controlOfNew(AF_INET, SOCK_STREAM);
  setenv("COMPARE_CONGESTION", "reno", 1);  // part of every kernel
  CHECK(controlOfNew(AF_INET, SOCK_STREAM) == "reno");
  CHECK(controlOfNew(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC) == "reno");
  setenv("COMPARE_CONGESTION", "", 1);
  CHECK(controlOfNew(AF_INET, SOCK_STREAM) == own);
}

TEST_CASE("compare: a control that the system lacks ends the process, and other sockets are left alone") {
  setenv("COMPARE_CONGESTION", "none-such", 1);
  CHECK(statusOfNew(AF_INET, SOCK_STREAM) == 1);
  CHECK(statusOfNew(AF_INET, SOCK_DGRAM) == 0);
  CHECK(statusOfNew(AF_UNIX, SOCK_STREAM) == 0);
  unsetenv("COMPARE_CONGESTION");
}
