#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include "actors/coordinator_policy.h"
#include "actors/session.h"

namespace troupe::actors::wire {

/// The most bytes of a message: a result may show the latents of a whole
/// window.
inline constexpr std::size_t kMostNewsBytes = std::size_t{64} << 20U;
/// The most entries of all lists of a message; an empty one takes two bytes of
/// it and a hundred in memory.
inline constexpr int kMostNewsEntries = 1 << 16;

/// The messages between a coordinator and the processes of its company.
using News =
    std::variant<Grant, GrantResult, WorkerUp, WorkerDown, WorkerBeat,
                 FreeValues, DropRuns, Recall, ProcessJoined, AdmitProcess,
                 RefuseProcess, CancelSample, DrainProcess, Offer, Join,
                 EndWorker, PeerAddress, JobOver, ProcessReport, DamagedValue,
                 EncodingOffer, StandBy, TextEncoded, EncodingDone,
                 EncodingRefused, NextJob>;

/// As troupe.wire.News. Tensors that a result shows are on the host. Errors:
/// Errc::invalid_argument above kMostNewsBytes. Thread: any.
[[nodiscard]] std::string encode(const News& news);
/// The message that it returns is well formed; whether its numbers fit the job
/// is for the receiver to check. Errors: Errc::corrupt_file. Thread: any.
[[nodiscard]] News decode_news(std::span<const std::byte> bytes);

/// The same for records that travel in a greeting.
[[nodiscard]] std::string encode(const Applicant& applicant);
[[nodiscard]] Applicant decode_applicant(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const Welcome& welcome);
[[nodiscard]] Welcome decode_welcome(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const PeerGreeting& greeting);
[[nodiscard]] PeerGreeting decode_peer_greeting(
    std::span<const std::byte> bytes);

}  // namespace troupe::actors::wire
