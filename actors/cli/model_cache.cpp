#include "actors/cli/model_cache.h"

#include <span>
#include <string>
#include <system_error>

#include "actors/cli/cache_file.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/hash.h"

namespace fs = std::filesystem;

namespace troupe::actors {
namespace {

/// A hash of weights and configurations, which identify a model.
std::string hash_of_model(const ModelRecord& model) {
  const std::string configs =
      model.denoiser_config + "\n" + model.decoder_config;
  return to_hex(model.weights_xxh3) + "-" +
         to_hex(xxh3_64(std::as_bytes(std::span(configs))));
}

}  // namespace

fs::path ModelCache::fetch(const ModelRecord& model, ModelHosts& hosts,
                           FetchFrom from, const FetchCalls& calls) const {
  make_cache_folder(folder_);
  const std::string hash = hash_of_model(model);
  const fs::path whole = folder_ / hash;
  const CacheLock lock(folder_ / (hash + ".lock"),
                       [&calls, glances = 0]() mutable {
                         constexpr int kSoon = 20;  // about a second
                         calls.check();
                         if (++glances == kSoon) {
                           calls.waits();
                         }
                         return true;
                       });
  std::error_code error;
  if (!fs::exists(whole, error)) {
    ModelFetching fetching(folder_ / (hash + ".part"), hosts, from, calls);
    fetching.run();
    fetching.rename(whole);
    sync_folder(folder_);
  }
  return whole;
}

void ModelCache::remove(const ModelRecord& model,
                        const std::function<void()>& check) const {
  const std::string hash = hash_of_model(model);
  const CacheLock lock(folder_ / (hash + ".lock"), [&check] {
    check();
    return true;
  });
  std::error_code error;
  fs::remove_all(folder_ / hash, error);
  if (error) {
    fail_in_cache(folder_ / hash, "cannot be removed", error.value());
  }
}

}  // namespace troupe::actors
