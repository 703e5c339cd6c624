#pragma once

#include <span>
#include <string>
#include <vector>

#include "actors/artefacts/npz.h"

namespace troupe::test {

/// All arrays of an archive that is in memory.
inline std::vector<NamedTensor> decode_npz(const std::string& place,
                                           std::span<const std::byte> bytes) {
  std::vector<NamedTensor> tensors;
  for (const actors::NpzMember& member : actors::view_npz(place, bytes)) {
    tensors.push_back(
        {member.name, actors::decode_npy(member.place, member.file)});
  }
  return tensors;
}

}  // namespace troupe::test
