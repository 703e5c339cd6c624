#pragma once

#include "actors/cli/signals.h"
#include "actors/encoding_record.h"
#include "actors/remote/company_member.h"
#include "config/config.h"

namespace troupe::actors {

/// Encodes what another process asks for, with the encoders in this process's
/// model folder, on a GPU with room or with all cores, and answers text by
/// text. Holds the processor to the level of who asks, if it has it. `config`
/// is the worker verb's. Errors: Errc::invalid_argument for a folder with
/// another encoder, or with none of the model's name; Errc::not_found for none
/// at all; Errc::unsupported for a dtype that the processor lacks;
/// Errc::out_of_memory before anything is read; Errc::corrupt_file for ids that
/// the encoder does not know; those of ModelSource::open, TextEncoder and
/// CompanyMember::answer; Errc::interrupted after a signal and once the
/// membership has ended.
void encode_offered(const config::Config& config, const EncodingRecord& record,
                    CompanyMember& member, StopFlag& stop);

}  // namespace troupe::actors
