// Machines that are described here, and jobs for them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/job_request.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::actors {

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
inline constexpr std::uint64_t kProbe = 0x1234;

inline kernels::CudaDevice gpu(int index, const std::string& name, int major) {
  return {.index = index,
          .name = name,
          .memory_bytes = 80 * kGiB,
          .compute_major = major,
          .compute_minor = 0,
          .num_multiprocessors = 132};
}

inline Gpus machine(std::vector<kernels::CudaDevice> gpus,
                    std::uint64_t free_bytes = 70 * kGiB) {
  return {.found = {std::move(gpus), {}},
          .memory =
              [free_bytes](int) {
                return kernels::DeviceMemory{free_bytes, 80 * kGiB};
              },
          .probe = [](const JobDevice&) { return kProbe; }};
}

inline Gpus no_gpu() {
  return {.found = {{}, "no NVIDIA driver is installed"},
          .memory = [](int) -> kernels::DeviceMemory {
            throw Error(Errc::internal, "test", "nobody asks");
          }};
}

inline config::Config job(const std::string& devices,
                          std::uint64_t samples = 8) {
  config::Config config;
  config.random_weights = "dit-tiny-vae";
  config.classes = {"1"};
  config.samples = {0, samples};
  config.sampler.steps = 4;
  config.devices = config::parse_devices("--device", devices);
  return config;
}

inline std::string refusal(const config::Config& config, const Gpus& gpus) {
  try {
    (void)make_request(config, nullptr, gpus);
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace troupe::actors
