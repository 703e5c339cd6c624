#pragma once

#include "actors/session.h"
#include "actors/wire/news_parts.h"

// The part of the news codec for what processes say beside the news of a job.
// Not included outside this folder: it names protobuf.

namespace troupe::actors::wire {

void write(const DrainProcess& drain, proto::News& news);
DrainProcess read(const proto::DrainProcess& from);
void write(const Offer& offer, proto::News& news);
/// The job in it is not checked.
Offer read(const proto::Offer& from);
void write(const Join& join, proto::News& news);
Join read(const proto::Join& from);
void write(const EndWorker& end, proto::News& news);
EndWorker read(const proto::EndWorker& from);
void write(const PeerAddress& peer, proto::News& news);
PeerAddress read(const proto::PeerAddress& from);
void write(const JobOver& over, proto::News& news);
JobOver read(const proto::JobOver& from);
void write(const ProcessReport& report, proto::News& news);
ProcessReport read(const proto::ProcessReport& from);
void write(const DamagedValue& damaged, proto::News& news);
DamagedValue read(const proto::DamagedValue& from);

void write(const ProcessJoined& joined, proto::ProcessJoined& to);
ProcessJoined read(const proto::ProcessJoined& from);

}  // namespace troupe::actors::wire
