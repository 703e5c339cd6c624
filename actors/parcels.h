#pragma once

#include <optional>

#include "actors/host_reader.h"
#include "kernels/core/value_channel.h"
#include "samplers/parallel/slot_table.h"

namespace troupe::actors {

/// A slot's value as a parcel: every tensor on the host. The first name says
/// which kind of value it is.
///   a tensor        tensor
///   a boundary      boundary, an empty mark; then its tensors by their names
///   a solver state  state, i64: order, then the calls of its history;
///                   latents; history, as often as there are; anchor, slope
/// Errors: those of HostReader::read. Thread: any.
[[nodiscard]] Parcel pack(const samplers::SlotTable::Value& value,
                          HostReader& reader);

/// The value of a parcel; shares its tensors. Nothing for a parcel of another
/// form.
[[nodiscard]] std::optional<samplers::SlotTable::Value> unpack(
    const Parcel& parcel);

}  // namespace troupe::actors
