#include "kernels/core/system/disk.h"

namespace troupe {
namespace {

class SystemFile final : public Disk::File {
 public:
  SystemFile(const std::filesystem::path& path,
             std::span<const std::byte> bytes, const FileRule& rule)
      : file_(path, rule) {
    file_.write(bytes);
  }
  void sync() override { file_.sync(); }
  bool try_publish() override { return file_.try_publish(); }
  [[nodiscard]] std::filesystem::path folder() const override {
    return file_.folder();
  }

 private:
  AtomicFile file_;
};

class SystemDisk final : public Disk {
 public:
  std::unique_ptr<File> create(const std::filesystem::path& path,
                               std::span<const std::byte> bytes,
                               const FileRule& rule) override {
    return std::make_unique<SystemFile>(path, bytes, rule);
  }
  void sync_folder(const std::filesystem::path& folder) noexcept override {
    troupe::sync_folder(folder);
  }
};

}  // namespace

Disk& system_disk() {
  static SystemDisk disk;
  return disk;
}

}  // namespace troupe
