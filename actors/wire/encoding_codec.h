#pragma once

#include "actors/session.h"
#include "actors/wire/news_parts.h"

// The part of the news codec for prompts that another process encodes. Not
// included outside this folder: it names protobuf.

namespace troupe::actors::wire {

void write(const EncodingOffer& offer, proto::News& news);
/// The record in it is not checked.
EncodingOffer read(const proto::EncodingOffer& from);
void write(const StandBy& stand_by, proto::News& news);
void write(const TextEncoded& text, proto::News& news);
TextEncoded read(const proto::TextEncoded& from);
void write(const EncodingDone& done, proto::News& news);
EncodingDone read(const proto::EncodingDone& from);
void write(const EncodingRefused& refused, proto::News& news);
EncodingRefused read(const proto::EncodingRefused& from);
void write(const NextJob& next, proto::News& news);

}  // namespace troupe::actors::wire
