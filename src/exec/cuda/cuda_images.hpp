// The compiled kernels as they lie in the library; see kernels/embed.py.
#pragma once

extern "C" {
/// Images for cuModuleLoadData, then a null pointer.
extern const void* const tutti_cuda_images[];
}
