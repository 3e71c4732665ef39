// Images as they are sent: the middle square, as the server would cut it, shrunk to twice the size that the model takes.

export const sent = (size) => Math.min(Math.max(2 * size, 16), 512);

export function square(source, width, height, size) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white"; // what is transparent is white, as on the server
  context.fillRect(0, 0, size, size);
  const side = Math.min(width, height);
  context.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0, size, size);
  return canvas;
}

/** Base64 of a PNG file: it can be kept as text. */
export const encoded = (canvas) => canvas.toDataURL("image/png").split(",")[1];

/** A file as a square canvas; an error with a sentence where it is no image. */
export async function opened(file, size) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name || "what was pasted"} is no image that this browser can read.`);
  }
  try {
    return square(bitmap, bitmap.width, bitmap.height, size);
  } finally {
    bitmap.close();
  }
}
