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
    {"lora,loras,lora-weights,lora-scale,adapter,lora-path",
     "LoRA adapters are not read",
     "merge one into its checkpoint first: in diffusers fuse_lora(), then "
     "save_pretrained()"},
    {"server,server-url,hosts,nodes",
     "a server that jobs are handed to is not there yet: it is coming",
     kMachinesToday},
    {"image,init-image,strength,denoising-strength,img2img",
     "starting from a picture is not there", kLatentsToday},
    {"mask,mask-image,inpaint", "inpainting is not there", kLatentsToday},
    {"controlnet,control-image,ip-adapter,t2i-adapter",
     "controlled generation is not there", kPromptsToday},
    {"vae,vae-path,unet,transformer,text-encoder,tokenizer",
     "parts of a pipeline are not given one by one",
     "put them in one folder in diffusers layout and give --model DIR"},
    {"safety-checker,enable-safety-checker,nsfw", "there is no safety checker",
     "pictures are written as the model makes them"},
    // Names of other programs for what is said otherwise here.
    {"seeds", "a command has one seed",
     "--seed N --samples K draws K images; with --noise torch these have the "
     "noise of the seeds N, N + 1, …"},
    {"variant",
     "of weights in several types the plain files are read, else fp16, else "
     "bf16",
     "leave it out; --dtype is the type that is computed in"},
    {"ckpt,checkpoint,ckpt-path,weights,weight,diffusion-model,revision",
     "a model is a folder in diffusers layout", "give --model DIR"},
    {"plms,ddim,dpm-solver,dpm,unipc,lms,heun,euler,euler-a",
     "a solver is a value of --sampler", "for example --sampler dpm++2m"},
    {"schedule,noise-schedule,sigma-schedule,use-exponential-sigmas,"
     "use-beta-sigmas",
     "how noise levels are spaced is --sigma-spacing",
     "give --sigma-spacing karras, exponential or beta"},
    {"scale", "the weight of guidance is --guidance, the picture's size --size",
     "give --guidance W or --size WxH"},
    {"true-cfg-scale,image-cfg-scale,image-guidance-scale,"
     "guidance-start,guidance-end,guidance-embeds",
     "one weight of guidance holds for all steps and conditions",
     "leave it out, or give --guidance W alone"},
    {"clipskip,clip-stop-at-last-layers,stop-at-clip-layer,clip-last-layer",
     "other programs count the text encoder's layers from 1, --clip-skip from "
     "0: their 2 is 1 here",
     "give --clip-skip with one less; see troupe help prompts"},
    {"mode,task,task-type",
     "the model says what is made, so there are no modes",
     "leave it out; --model DIR is the model, and --init-latents FILE starts "
     "from latents"},
    {"n-iter,iterations,batches,num-batches", "batches follow from the machine",
     "--samples N counts all pictures of a prompt; --batch N bounds what is "
     "computed at once"},
    {"fp16,bf16,half,float16,bfloat16,fp32,mixed-precision,quantize,"
     "quantization",
     "the type that is computed in is --dtype",
     "give --dtype f32, bf16 or f16, or leave the choice to Troupe"},
    {"cpu,cuda,gpu,gpus,gpu-id,gpu-ids,device-id,device-map,num-gpus",
     "devices are values of --device", "give --device cpu, cuda or cuda:N"},
    {"cpu-offload,enable-model-cpu-offload,enable-sequential-cpu-offload,"
     "offload,low-vram,lowvram,medvram,enable-attention-slicing,xformers,"
     "enable-xformers-memory-efficient-attention,vae-slicing,"
     "enable-vae-slicing",
     "what is held where is decided by the memory that is free",
     "leave it out: --dry-run says what is planned"},
    {"output-type,return-dict,format",
     "pictures are PNG, and tensors have options of their own",
     "give --out FILE.png, or --save latents=FILE"},
    {"generator,manual-seed,noise-seed,torch-seed",
     "the seed is --seed, torch's generator --noise torch",
     "give --seed N --noise torch"},
    {"solver-type,algorithm-type,"
     "use-lu-lambdas,lower-order-final,euler-at-final,rescale-betas-zero-snr,"
     "steps-offset,set-alpha-to-one,trained-betas,thresholding,"
     "dynamic-thresholding-ratio,clip-sample-range,base-shift,max-shift,"
     "shift-terminal,use-dynamic-shifting",
     "this key of a scheduler is read from its file alone",
     "set it in scheduler/scheduler_config.json"},
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
