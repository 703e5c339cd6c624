#include "actors/system_config.h"

namespace troupe::actors {

SystemConfig::SystemConfig() {
  add_message_types<caf::id_block::troupe>();
  // `sharing` answers twice as fast as `stealing` here and idles at nothing;
  // the rest of the machine is for computing.
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", std::size_t{2});
}

}  // namespace troupe::actors
