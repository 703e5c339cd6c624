#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "actors/coordinator_events.h"
#include "actors/job_record.h"
#include "actors/job_status.h"
#include "actors/link_table.h"
#include "actors/session.h"
#include "kernels/core/value_channel.h"
#include "models/description.h"

// Messages between processes as bytes, and back. What is read is well formed;
// whether its numbers fit the job is for the receiver to check.
//
// Errors, of all that read: Errc::corrupt_file. Of all that write:
// Errc::invalid_argument for a message that is too large. Thread: any.

namespace troupe::actors::wire {

// ---- a job

/// The most bytes of an encoded record. A record of a thousand model calls has
/// some 100 KB, one of fifty 10 KB.
inline constexpr std::size_t kMostJobBytes = std::size_t{4} << 20U;

/// As troupe.wire.JobRecord. Deterministic, but no name of the job: that is
/// hash_of(record).
[[nodiscard]] std::string encode(const JobRecord& job);
/// Reads a record, without `check`. It takes at most 64 times the record's size
/// and 1 MiB.
[[nodiscard]] JobRecord read_job(std::span<const std::byte> bytes);

// ---- a running job

/// The most bytes of a message: prompts to be encoded have tens of thousands of
/// texts.
inline constexpr std::size_t kMostNewsBytes = std::size_t{64} << 20U;
/// The most entries of all lists of a message that are no plain numbers: an
/// empty one takes two bytes of it and a hundred in memory.
inline constexpr int kMostNewsEntries = 1 << 16;

/// The messages between a coordinator and the processes of its company.
using News = JoinedVariant<
    WorkerMessage, ProcessMessage, ProcessNews,
    std::variant<Offer, Join, EndWorker, PeerAddress, JobOver, ProcessReport,
                 DamagedValue, EncodingOffer, StandBy, TextEncoded, TextFetched,
                 EncodingDone, EncodingRefused, NextJob>>;

[[nodiscard]] std::string encode(const News& news);
[[nodiscard]] News decode_news(std::span<const std::byte> bytes);

// ---- greetings

[[nodiscard]] std::string encode(const Applicant& applicant);
[[nodiscard]] Applicant decode_applicant(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const Welcome& welcome);
[[nodiscard]] Welcome decode_welcome(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const PeerGreeting& greeting);
[[nodiscard]] PeerGreeting decode_peer_greeting(
    std::span<const std::byte> bytes);

// ---- clients

inline constexpr std::size_t kMostClientBytes = std::size_t{4} << 20U;

[[nodiscard]] std::string encode(const ClientQuestion& question);
[[nodiscard]] ClientQuestion decode_question(std::span<const std::byte> bytes);
/// A status of more than kMostClientNodes nodes is cut to the first ones.
[[nodiscard]] std::string encode(const ClientAnswer& answer);
[[nodiscard]] ClientAnswer decode_answer(std::span<const std::byte> bytes);

// ---- values

[[nodiscard]] std::string encode(const ValueKey& key);
[[nodiscard]] ValueKey decode_key(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const LinkPace& pace);
[[nodiscard]] LinkPace decode_pace(std::span<const std::byte> bytes);

/// The most bytes of a value.
inline constexpr std::size_t kMostParcelBytes = std::size_t{64} << 20U;
/// The most tensors of a value.
inline constexpr int kMostParcelEntries = 1 << 16;

/// Elements on the host, from an address that suits every dtype.
struct Elements {
  std::shared_ptr<std::byte> first;
  std::size_t num_bytes = 0;
};

/// A parcel without the elements of its tensors, as troupe.wire.ParcelOutline.
[[nodiscard]] std::string encode_outline(const Parcel& parcel);
/// The parcel of an outline, with the elements of its tensors in their order;
/// those are shared. An empty tensor has none. `unpack` says whether the parcel
/// is a value.
[[nodiscard]] Parcel decode_outline(std::span<const std::byte> outline,
                                    std::span<const Elements> elements);

}  // namespace troupe::actors::wire
