// A table file: one row per option or verb that Troupe does not have yet.
#include "config/not_yet.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

struct NotYet {
  std::string_view names;  ///< spellings, comma-separated; the first is shown
  std::string_view says;   ///< what is not there, and whether it is coming
  std::string_view hint;   ///< what to do today
};

constexpr std::string_view kPromptsToday =
    "--prompt TEXT or --class NAME say what a picture shows";
constexpr std::string_view kMachinesToday =
    "troupe sample --listen ADDR takes workers of other machines, which begin "
    "with troupe worker --join ADDR";
constexpr std::string_view kLatentsToday =
    "--init-latents FILE starts from latents";

constexpr auto kOptions = std::to_array<NotYet>({
    {"negative-prompt-embeds,pooled-prompt-embeds,prompt-attention-mask",
     "all tensors of encoded prompts are in one file",
     "give it with --prompt-embeds FILE, as troupe encode writes it"},
    {"max-sequence-length",
     "what this changes of a prompt is not there yet: it is coming",
     "leave it out: troupe inspect DIR says whether the model takes prompts, "
     "and how long they may be"},
    {"lora,loras,lora-weights,lora-scale,adapter,lora-path",
     "LoRA adapters are not read",
     "merge one into its checkpoint first: in diffusers fuse_lora(), then "
     "save_pretrained()"},
    {"server,server-url,hosts,nodes",
     "a server that jobs are handed to is not there yet: it is coming",
     kMachinesToday},
    {"width,height,resolution,image-size", "the two sides are one option",
     "give --size WIDTHxHEIGHT"},
    {"image,init-image,strength,denoising-strength,img2img",
     "starting from a picture is not there", kLatentsToday},
    {"mask,mask-image,inpaint", "inpainting is not there", kLatentsToday},
    {"controlnet,control-image,ip-adapter,t2i-adapter",
     "controlled generation is not there", kPromptsToday},
    {"vae,vae-path,unet,transformer,text-encoder,tokenizer",
     "parts of a pipeline are not given one by one",
     "put them in one folder in diffusers layout and give --model DIR"},
    {"safety-checker,enable-safety-checker", "there is no safety checker",
     "pictures are written as the model makes them"},
});

constexpr auto kVerbs = std::to_array<NotYet>({
    {"serve,server,daemon", "a server is not there yet: it is coming",
     "troupe sample runs a job in its own process; --json and --progress json "
     "are made for programs"},
    {"list,jobs,status,ps", "the verb is ls",
     "troupe ls ADDR shows the job that listens there"},
    {"stop,kill", "the verb is cancel",
     "troupe cancel ADDR stops the job that listens there and keeps finished "
     "images, as Ctrl-C and SIGTERM do"},
    {"resume,continue,restart",
     "there is no journal to resume from: it is coming with `serve`",
     "the same troupe sample command with --exists skip goes on where it "
     "stopped"},
    {"prompt,text2image,txt2img,generate", "the verb is sample",
     "troupe sample --model DIR --prompt TEXT --out FILE.png"},
    {"sweep,grid", "sweeps over options are not there yet: they are coming",
     "a loop in the shell runs troupe sample for each value"},
    {"convert", "checkpoints are converted outside of troupe",
     "scripts/convert_checkpoint.py turns pickled weights to safetensors"},
    {"train,finetune", "Troupe samples models and trains none",
     "train in diffusers and give the folder to troupe sample --model DIR"},
});

void check(std::span<const NotYet> rows, std::string_view name,
           std::string_view place) {
  std::string wanted(name);
  std::ranges::replace(wanted, '_', '-');
  for (const NotYet& row : rows) {
    if (std::ranges::count(parse_list("names", row.names), wanted) > 0) {
      throw Error(Errc::unsupported, place, row.says, row.hint);
    }
  }
}

}  // namespace

void check_missing_option(std::string_view name, std::string_view place) {
  check(kOptions, name, place);
}

void check_missing_verb(std::string_view name) { check(kVerbs, name, name); }

}  // namespace troupe::config
