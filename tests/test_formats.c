/* Tests that files of other formats are named, with what to do about them. */
#include "base/formats.h"

#include <string.h>

#include "support/test.h"

/* A literal with zero bytes, and its length. */
#define BYTES(LITERAL) LITERAL, sizeof(LITERAL) - 1

TEST(each_known_format_is_named_with_a_cure_for_what_was_wanted) {
  static const struct {
    const char *bytes;
    size_t length;
    FormatWanted wanted;
    const char *says;
  } cases[] = {
      {BYTES("\x93NUMPY\1\0"), FORMAT_ROWS, "a NumPy array: np.savetxt("},
      {BYTES("PK\3\4\x14\0\0\0x.npy"), FORMAT_ROWS, "a .npz archive of NumPy arrays: numpy.load"},
      {BYTES("PK\3\4\x14\0a/data.pkl"), FORMAT_NETWORK, "a file of torch.save: load it in Python"},
      {BYTES("PK\3\4\0[Content_Types].xml"), FORMAT_ROWS, "an office program: save it as CSV"},
      {BYTES("PK\3\4\0train.csv"), FORMAT_ROWS, "a ZIP archive: unzip it"},
      {BYTES("\x89PNG\r\n"), FORMAT_ROWS, "a PNG picture: --classify takes pictures"},
      {BYTES("BM\x36\x0c\0\0\0\0\0\0\x36"), FORMAT_ROWS, "a BMP picture: --classify takes"},
      {BYTES("GIF89a\1\0\1\0\x80\0\0"), FORMAT_PICTURE,
       "a GIF picture: convert it to PNG for --classify"},
      {BYTES("II*\0\x8\0"), FORMAT_PICTURE, "a TIFF picture: convert it to PNG"},
      {BYTES("MM\0*\0"), FORMAT_PICTURE, "a TIFF picture"},
      {BYTES("RIFF\1\2\0\0WEBPVP8"), FORMAT_PICTURE, "a WebP picture"},
      {BYTES("\0\0\0\x18"
             "ftypheic"),
       FORMAT_PICTURE, "a HEIC or AVIF picture"},
      {BYTES("<?xml version='1.0'?><svg x=''>"), FORMAT_PICTURE, "an SVG drawing"},
      {BYTES("1,2,3\n"), FORMAT_PICTURE, "CSV text: it has rows; --train, --test and --predict"},
      {BYTES("PAR1\x15"), FORMAT_ROWS, "a Parquet file: pandas reads it"},
      {BYTES("ARROW1\0\0"), FORMAT_ROWS, "an Arrow or Feather file: pandas reads it"},
      {BYTES("MATLAB 5.0 MAT-file"), FORMAT_ROWS, "MATLAB: scipy.io.loadmat reads it"},
      {BYTES("GGUF\3\0\0\0"), FORMAT_NETWORK, "a GGUF file: it does not hold a network of linear"},
      {BYTES("\x8\x8\x12\x7pytorch\x1a"), FORMAT_NETWORK, "an ONNX model: export the PyTorch"},
      {BYTES("\x8\x8\x12\x8skl2onnx"), FORMAT_NETWORK, "an ONNX model: write its weights"},
      {BYTES("\0\0\0\0\2\0\0\0\5\0\0\0"), FORMAT_NETWORK, "a file of darknet weights"},
      {BYTES("\x80\4\x95"), FORMAT_NETWORK, "a pickle of Python: save_file"},
      {BYTES("\x1f\x8b\x8"), FORMAT_NETWORK, "a gzip archive: gunzip unpacks it"},
      {BYTES("BZh91AY&SY\x1"), FORMAT_ROWS, "a bzip2 archive: bunzip2 unpacks it"},
      {BYTES("(\xb5/\xfd"), FORMAT_ROWS, "a Zstandard archive: unzstd unpacks it"},
      {BYTES("7z\xbc\xaf\x27\x1c"), FORMAT_ROWS, "a 7-Zip archive: 7z x unpacks it"},
      {BYTES("% comment\n@RELATION digits\n"), FORMAT_ROWS, "an ARFF file: remove the lines"},
      {BYTES("5 153:3 154:18\n"), FORMAT_ROWS, "in the format of libsvm: sklearn.datasets"},
      {BYTES("-1 1:0.5\n"), FORMAT_ROWS, "in the format of libsvm"},
      {BYTES("{\"pixels\": [0, 0]}"), FORMAT_ROWS, "JSON text: pandas reads it"},
      {BYTES("[[0, 1]]"), FORMAT_ROWS, "JSON text"},
      {BYTES("\x18\1\0\0\0\0\0\0{\"__meta"), FORMAT_ROWS,
       "a saved network: --resume goes on training it, --load uses it"},
      {BYTES("\x18\1\0\0\0\0\0\0{\"__meta"), FORMAT_PICTURE, "a saved network: --load takes"},
      {BYTES("5,0,0\n"), FORMAT_NETWORK, "CSV text: --load takes a network that --save wrote"},
  };
  foreach (c, cases) {
    assert_false(format_check("a.bin", c->bytes, c->length, c->wanted, &error));
    assert_in(error.text, "a.bin is ");
    assert_in(error.text, c->says);
  }
}

TEST(what_is_wanted_is_accepted) {
  static const struct {
    const char *bytes;
    size_t length;
    FormatWanted wanted;
  } cases[] = {
      {BYTES("5,0,0\n"), FORMAT_ROWS},
      {BYTES("label,pixel0\n"), FORMAT_ROWS},
      {BYTES("BM,II,MM,GIF\n"), FORMAT_ROWS},
      {BYTES("matlab_class,pixel0\n"), FORMAT_ROWS},
      {BYTES("Par1,par2\n"), FORMAT_ROWS},
      {BYTES("arrow10,arrow11\n"), FORMAT_ROWS},
      {BYTES("gguf,pixel0\n"), FORMAT_ROWS},
      {BYTES("bzh,pixel0\n"), FORMAT_ROWS},
      {BYTES("gif89a,pixel0,pixel1\n"), FORMAT_ROWS},
      {BYTES("SomeFtype,pixel0\n"), FORMAT_ROWS},
      {BYTES("[label],[0]\n"), FORMAT_ROWS},
      {BYTES("{label},{0}\n"), FORMAT_ROWS},
      {BYTES("\x1f\x8b\x8"), FORMAT_ROWS},
      {BYTES("5 0 0\n"), FORMAT_ROWS},
      {BYTES("2020-01-01 12:30,5\n"), FORMAT_ROWS},
      {BYTES(""), FORMAT_ROWS},
      {BYTES("\x89PNG\r\n"), FORMAT_PICTURE},
      {BYTES("BM\x36\0"), FORMAT_PICTURE},
      {BYTES("P5 2 2 255 "), FORMAT_PICTURE},
      {BYTES("\x60\1\0\0\0\0\0\0{\"__metadata__\""), FORMAT_NETWORK},
  };
  foreach (c, cases) {
    if (!format_check("a", c->bytes, c->length, c->wanted, &error)) fail_msg("%s", error.text);
  }
}
