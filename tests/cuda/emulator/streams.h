#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

// For emulated libraries: how they queue their work.

namespace troupe::emulator {

/// Queues `work` on a stream, or records it while the stream is captured.
/// `work` may touch the stream's device's memory (and nothing else may); it
/// runs once per playback, on some thread that waits. It must not call CUDA.
/// `name` is for messages. Errors: the runtime's, as cudaGetLastError also
/// gives them. Thread: any.
cudaError_t enqueue(cudaStream_t stream, std::string name,
                    std::function<void()> work);
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Whether work queued on the stream is being recorded.
[[nodiscard]] bool is_capturing(cudaStream_t stream);

}  // namespace troupe::emulator
