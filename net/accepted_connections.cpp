#include "net/accepted_connections.h"

#include <utility>

namespace troupe::net {

void AcceptedConnections::accept(int descriptor) {
  owners_.insert_or_assign(descriptor, Owner{});
}

std::optional<AcceptedConnections::Owner> AcceptedConnections::close(
    int descriptor) {
  const auto found = owners_.find(descriptor);
  if (found == owners_.end()) {
    return std::nullopt;
  }
  const Owner owner = found->second;
  owners_.erase(found);
  return owner;
}

std::optional<AcceptedConnections::Owner> AcceptedConnections::take(
    int descriptor, const Owner& owner) {
  const auto found = owners_.find(descriptor);
  if (found == owners_.end()) {
    return std::nullopt;
  }
  return std::exchange(found->second, owner);
}

void AcceptedConnections::give_back(int descriptor, const Owner& owner) {
  const auto found = owners_.find(descriptor);
  if (found != owners_.end() && found->second == owner) {
    found->second = Owner{};
  }
}

}  // namespace troupe::net
