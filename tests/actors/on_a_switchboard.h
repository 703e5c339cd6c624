// Both ends of links in one process: what tests of them have in common.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "actors/remote/company_member.h"
#include "net/link.h"

namespace troupe::actors {

/// Its hubs meet on one switchboard. The job is at inproc://job.
class OnASwitchboard : public testing::Test {
 protected:
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
  hub_maker() {
    return [this](net::HubOptions options, net::LinkHandler& handler) {
      return board_->make_hub(std::move(options), handler);
    };
  }
  std::unique_ptr<CompanyMember> member(
      const std::string& version = "test",
      const config::WorkerCount& workers = {},
      const std::function<std::unique_ptr<net::Hub>(std::unique_ptr<net::Hub>)>&
          wrap = {}) {
    return std::make_unique<CompanyMember>(
        MemberSpec{.version = version,
                   .name = "test",
                   .hub = {.role = "worker"},
                   .endpoint = "inproc://job",
                   .workers = workers,
                   .make_hub = [=, this](net::HubOptions options,
                                         net::LinkHandler& handler) {
                     auto hub = board_->make_hub(std::move(options), handler);
                     return wrap ? wrap(std::move(hub)) : std::move(hub);
                   }});
  }

 private:
  std::unique_ptr<net::Switchboard> board_ = net::make_switchboard();
};

}  // namespace troupe::actors
