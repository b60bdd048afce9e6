// A libucp.so.0 of a version that is too old.
__attribute__((visibility("default"))) void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 12;
  *release = 1;
}
