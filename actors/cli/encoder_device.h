#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/cli/job_devices.h"
#include "actors/cli/text_encoding.h"
#include "kernels/core/device.h"
#include "kernels/core/dtype.h"

namespace troupe::actors {

/// What text encoders compute in on the GPU whose network computes in `dtype`.
/// Not in f16, which large T5 encoders overflow.
[[nodiscard]] DType encoder_dtype_on_gpu(DType dtype);
/// The same on the CPU beside such a GPU.
[[nodiscard]] DType encoder_dtype_on_cpu(DType dtype);

/// The device of this process that encodes prompts.
struct EncoderDevice {
  JobDevice device;  ///< `compute`: what the encoders compute in
  EncodingMemory memory;
};

/// Which of a process's devices may encode prompts.
struct EncoderDevices {
  /// The best first, with the dtype of encoders, and its probe or 0.
  std::vector<JobDevice> gpus;
  DType on_cpu = DType::f32;
  /// The kind that is to encode; unset: a GPU, if one has room.
  std::optional<DeviceKind> only;
};

/// The first GPU with enough memory of its own for what `memory` says, else the
/// CPU. The host's memory is for check_encoder_memory. Notes name GPUs without
/// room. Errors: of a GPU that does not answer.
[[nodiscard]] EncoderDevice choose_encoder_device(
    const EncoderDevices& devices, const Gpus& gpus,
    const std::function<EncodingMemory(const JobDevice& by)>& memory,
    std::vector<std::string>& notes);

/// What helps where encoded prompts alone are too many.
inline constexpr std::string_view kFewerPrompts =
    "give fewer prompts at a time, or draw a part of the images with --samples "
    "A:B";

/// Errors: Errc::out_of_memory with `hint` where the host has less; with
/// kFewerPrompts if the encoder would fit without them.
void check_encoder_memory(const EncodingMemory& needed, std::string_view hint);

}  // namespace troupe::actors
