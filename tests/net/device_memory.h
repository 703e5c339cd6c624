#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "tests/net/communicator_world.h"

namespace troupe::net {

/// Memory of a rank's GPU. ctx outlives it.
class DeviceMemory final : public CommunicatorMemory {
 public:
  DeviceMemory(ExecContext& ctx, std::size_t bytes)
      : ctx_(ctx),
        tensor_(ctx.empty({static_cast<std::int64_t>(bytes)}, DType::u8)) {
    ctx_.synchronize();  // the allocation is queued
  }

  std::span<std::byte> span() override { return tensor_.bytes(); }
  void write(std::span<const std::byte> bytes) override {
    if (!bytes.empty()) {
      const auto* const first =
          reinterpret_cast<const std::uint8_t*>(bytes.data());
      kernels::copy(
          ctx_, Tensor::from(std::span(first, bytes.size()), tensor_.shape()),
          tensor_);
      ctx_.synchronize();
    }
  }
  std::vector<std::byte> read() override {
    if (tensor_.empty()) {
      return {};
    }
    const Tensor host = kernels::on_host(ctx_, tensor_);
    return {host.bytes().begin(), host.bytes().end()};
  }

 private:
  ExecContext& ctx_;
  Tensor tensor_;
};

}  // namespace troupe::net
