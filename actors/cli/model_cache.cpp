#include "actors/cli/model_cache.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "actors/cli/cache_file.h"
#include "actors/remote/chunk_plan.h"
#include "actors/remote/model_files.h"
#include "actors/session.h"
#include "kernels/core/clock.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"
#include "net/link.h"

namespace fs = std::filesystem;

namespace troupe::actors {
namespace {

/// Between two checks.
constexpr auto kFetchGlance = std::chrono::milliseconds(50);
/// Between two reports of how far it is.
constexpr auto kTellEvery = std::chrono::seconds(1);
/// In the folder. No file of a list begins with a dot.
constexpr const char* kRecordName = ".chunks";

/// For the others the first process stands in.
net::FetchOptions impatient_fetch(std::size_t most_bytes) {
  return {most_bytes, std::chrono::seconds(20), std::chrono::seconds(5)};
}

bool is_single(const net::Fetched& fetched) {
  return fetched.status == net::FetchStatus::found && fetched.value.size() == 1;
}

/// What the first process was asked for, and gave.
const net::SharedBytes& from_first_process(const net::Fetched& fetched,
                                           const std::string& what) {
  require(
      is_single(fetched), Errc::unreachable, what,
      "the job's host did not give it: " +
          (fetched.what.empty() ? "other parts than asked for" : fetched.what),
      "give the worker a copy with --model-root");
  return fetched.value.front();
}

std::string_view text_in(const net::SharedBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data.get()), bytes.size};
}

/// The first kHeadBytes bytes of the record of chunks, which name its list of
/// files.
constexpr std::size_t kHeadBytes = 17;
std::string head_of_record(const ModelChunks& chunks) {
  return to_hex(xxh3_64(net::bytes_of(encode(chunks.files())))) + "\n";
}

std::vector<bool> flags_of(std::string_view text) {
  std::vector<bool> flags;
  for (const char c : text) {
    flags.push_back(c == '1');
  }
  return flags;
}

/// A hash of weights and configurations, which identify a model.
std::string hash_of_model(const ModelRecord& model) {
  const std::string configs =
      model.denoiser_config + "\n" + model.decoder_config;
  return to_hex(model.weights_xxh3) + "-" +
         to_hex(xxh3_64(std::as_bytes(std::span(configs))));
}

/// One model on its way into a folder of the cache. Chunks come in any order,
/// so a file in that folder lists the chunks that are there. A later fetching
/// goes on from that list. Thread: one.
class ModelFetching {
 public:
  /// All that is handed over outlives the object, but for the folder.
  ModelFetching(std::filesystem::path folder, ModelHosts& hosts, FetchFrom from,
                const FetchCalls& calls);

  /// Until all is there, and durable. Errors: those of ModelCache::fetch.
  void run();
  /// Names the folder, when all is there. Errors: Errc::io.
  void rename(const std::filesystem::path& to);

 private:
  using Question = ChunkPlan::Question;
  struct Answers;

  [[nodiscard]] ModelChunks ask_for_list();
  void prepare();
  void remove_others() const;
  void check_room(std::uint64_t there, bool all) const;
  [[nodiscard]] std::vector<bool> chunks_there() const;
  void write_record(const std::vector<bool>& there);
  void fetch();
  void ask(const Question& question);
  void hear(const Question& question, const net::Fetched& fetched);
  void hear_giver(const Question& question, const net::Fetched& fetched);
  void store(const Question& question, const net::SharedBytes& bytes);
  void sync();

  const std::filesystem::path folder_;
  ModelHosts& hosts_;
  const FetchFrom from_;
  const FetchCalls& calls_;
  const SteadyClock clock_;
  std::shared_ptr<Answers> answers_;
  std::optional<ModelChunks> chunks_;
  std::deque<CacheFile> files_;  ///< as in the list
  std::optional<CacheFile> record_;
  std::optional<ChunkPlan> plan_;
  std::shared_ptr<ModelGiver> giver_;
  FetchProgress progress_;
};

}  // namespace

/// Answers as they come, also after the last question has been given up.
struct ModelFetching::Answers {
  using Answer = std::pair<Question, net::Fetched>;

  std::mutex mutex;
  std::condition_variable came;
  std::deque<Answer> all;

  void add(Answer answer) {
    const std::lock_guard lock(mutex);
    all.push_back(std::move(answer));
    came.notify_one();
  }
  /// None within a while: an empty list.
  std::deque<Answer> take() {
    std::unique_lock lock(mutex);
    came.wait_for(lock, kFetchGlance, [this] { return !all.empty(); });
    return std::exchange(all, {});
  }
};

ModelFetching::ModelFetching(fs::path folder, ModelHosts& hosts, FetchFrom from,
                             const FetchCalls& calls)
    : folder_(std::move(folder)),
      hosts_(hosts),
      from_(from),
      calls_(calls),
      answers_(std::make_shared<Answers>()) {}

void ModelFetching::run() {
  chunks_.emplace(ask_for_list());
  prepare();
  fetch();
  sync();
  calls_.progress(progress_);
}

void ModelFetching::rename(const fs::path& to) {
  if (giver_) {
    giver_->rename(to);
    return;
  }
  std::error_code error;
  fs::rename(folder_, to, error);
  if (error) {
    fail_in_cache(to, "cannot be named", error.value());
  }
}

ModelChunks ModelFetching::ask_for_list() {
  hosts_.ask(kHomeProcess, ModelFilesKey{}, patient_fetch(kMostModelListBytes),
             [answers = answers_](net::Fetched fetched) {
               answers->add({{kHomeProcess, {}}, std::move(fetched)});
             });
  for (;;) {
    calls_.check();
    const auto came = answers_->take();
    if (!came.empty()) {
      return ModelChunks(decode_model_files(
          text_in(from_first_process(came.front().second, "model files"))));
    }
  }
}

/// Looks at what is there, and makes room for the rest.
void ModelFetching::prepare() {
  make_cache_folder(folder_);
  remove_others();
  check_room(0, true);
  for (const ModelFile& file : chunks_->files()) {
    const fs::path path = folder_ / file.path;
    make_cache_folder(path.parent_path());
    const CacheFile& its = files_.emplace_back(path);
    if (its.size() > file.bytes) {
      its.resize(file.bytes);
    }
  }
  std::vector<bool> there = chunks_there();
  progress_.total = chunks_->num_bytes();
  for (std::size_t i = 0; i < there.size(); ++i) {
    progress_.there += there[i] ? chunks_->at(i).bytes : 0;
  }
  check_room(progress_.there, false);
  write_record(there);
  plan_.emplace(there, hosts_.process());
  if (from_ == FetchFrom::anyone) {
    giver_ = std::make_shared<ModelGiver>(folder_, *chunks_, std::move(there));
    hosts_.give_model(giver_);
  }
}

/// What a host with other files of the same model had given.
void ModelFetching::remove_others() const {
  std::set<fs::path> wanted = {folder_ / kRecordName};
  for (const ModelFile& file : chunks_->files()) {
    wanted.insert(folder_ / file.path);
  }
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::recursive_directory_iterator at(folder_, error), end;
       !error && at != end; at.increment(error)) {
    if (!at->is_directory(error) && !wanted.contains(at->path())) {
      others.push_back(at->path());
    }
  }
  for (const fs::path& path : others) {
    fs::remove(path, error);
  }
  if (error) {
    fail_in_cache(folder_, "cannot be cleared", error.value());
  }
}

/// `all`: on the whole disk, before any of it is counted.
void ModelFetching::check_room(std::uint64_t there, bool all) const {
  std::error_code error;
  const fs::space_info space = fs::space(folder_, error);
  const std::uint64_t room = all ? space.capacity : space.available;
  const std::uint64_t left = chunks_->num_bytes() - there;
  if (!error && left > room) {
    throw Error(Errc::no_space, folder_.string(),
                "the model does not fit: got " + human_bytes(room) +
                    ", expected " + human_bytes(left),
                "name a larger disk with --cache");
  }
}

/// By the record, if it is of this list. A folder without one was written from
/// the front of each file on, or is whole.
std::vector<bool> ModelFetching::chunks_there() const {
  const fs::path path = folder_ / kRecordName;
  std::vector<bool> there(chunks_->size(), true);
  std::error_code error;
  if (fs::exists(path, error)) {
    const std::string head = head_of_record(*chunks_);
    const std::size_t size = kHeadBytes + chunks_->size();
    std::string text;
    if (fs::file_size(path, error) == size) {
      text = read_file(path, size);
    }
    there = text.starts_with(head) ? flags_of(text.substr(kHeadBytes))
                                   : std::vector<bool>(chunks_->size());
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    const ModelChunks::Chunk chunk = chunks_->at(i);
    there[i] = there[i] && chunk.end() <= files_[chunk.file].size();
  }
  return there;
}

/// Before anything is written: a file with gaps looks whole.
void ModelFetching::write_record(const std::vector<bool>& there) {
  std::string text = head_of_record(*chunks_);
  for (const bool is_there : there) {
    text.push_back(is_there ? '1' : '0');
  }
  record_.emplace(folder_ / kRecordName);
  record_->resize(0);
  record_->write(0, net::bytes_of(text));
}

void ModelFetching::fetch() {
  TimePoint told = clock_.now();
  while (!plan_->is_done()) {
    calls_.check();
    const TimePoint now = clock_.now();
    plan_->set_givers(
        from_ == FetchFrom::anyone ? hosts_.model_givers() : std::vector<int>{},
        now);
    for (const Question& question : plan_->next(now)) {
      ask(question);
    }
    for (const auto& [question, fetched] : answers_->take()) {
      hear(question, fetched);
    }
    if (now - told >= kTellEvery && !plan_->is_done()) {
      told = now;
      calls_.progress(progress_);
    }
  }
}

void ModelFetching::ask(const Question& question) {
  const std::size_t most = question.chunk ? kModelChunkBytes : chunks_->size();
  hosts_.ask(question.process,
             question.chunk ? ValueKey(chunks_->key_of(*question.chunk))
                            : ValueKey(ModelChunksKey{}),
             question.process == kHomeProcess ? patient_fetch(most)
                                              : impatient_fetch(most),
             [answers = answers_, question](net::Fetched fetched) {
               answers->add({question, std::move(fetched)});
             });
}

void ModelFetching::hear(const Question& question,
                         const net::Fetched& fetched) {
  if (question.process != kHomeProcess) {
    hear_giver(question, fetched);
    return;
  }
  const ModelChunks::Chunk chunk = chunks_->at(*question.chunk);
  const std::string& file = chunks_->files()[chunk.file].path;
  const net::SharedBytes& bytes = from_first_process(fetched, file);
  require(bytes.size == chunk.bytes, Errc::corrupt_file, file,
          "a part of it has another size than the list says");
  store(question, bytes);
}

/// Whatever is wrong with a giver, there is the first process.
void ModelFetching::hear_giver(const Question& question,
                               const net::Fetched& fetched) {
  const TimePoint now = clock_.now();
  const auto distrust = [&](const std::string& why) {
    if (plan_->came_wrong(question)) {
      log_message(LogLevel::warning, "process " +
                                         std::to_string(question.process) +
                                         " is asked for no files: " + why);
    }
  };
  if (fetched.status == net::FetchStatus::corrupt ||
      fetched.status == net::FetchStatus::too_large) {
    distrust(fetched.what);
  } else if (!is_single(fetched)) {
    plan_->came_not(question, now);
    log_message(LogLevel::info, "fetching goes on without process " +
                                    std::to_string(question.process) +
                                    " for a while: " + fetched.what);
  } else if (!question.chunk) {
    plan_->holds(question.process, flags_of(text_in(fetched.value.front())),
                 now);
  } else if (fetched.value.front().size != chunks_->at(*question.chunk).bytes) {
    distrust("it gave a part of another size than the first process says");
  } else {
    store(question, fetched.value.front());
  }
}

void ModelFetching::store(const Question& question,
                          const net::SharedBytes& bytes) {
  const std::size_t number = *question.chunk;
  const bool is_new = !plan_->is_there(number);
  plan_->came(question);
  if (!is_new) {
    return;  // of two who were asked, this was the slower one
  }
  const ModelChunks::Chunk chunk = chunks_->at(number);
  files_[chunk.file].write(chunk.offset, bytes.span());
  record_->write(kHeadBytes + number, net::bytes_of("1"));
  progress_.there += bytes.size;
  progress_.from_workers += question.process == kHomeProcess ? 0 : bytes.size;
  if (giver_) {
    giver_->add(number);
  }
}

/// The record goes when the files are durable: it must not stay in what is
/// whole.
void ModelFetching::sync() {
  std::set<fs::path> folders = {folder_};
  for (std::size_t i = 0; i < files_.size(); ++i) {
    files_[i].sync();
    folders.insert((folder_ / chunks_->files()[i].path).parent_path());
  }
  record_.reset();
  std::error_code error;
  fs::remove(folder_ / kRecordName, error);
  if (error) {
    fail_in_cache(folder_ / kRecordName, "cannot be removed", error.value());
  }
  for (const fs::path& folder : folders) {
    sync_folder(folder);
  }
}

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
