// <staffloop-figure data-spec>: a figure is a picture until it comes into view, then the interactive chart.
import { send } from "../quiz/api.js";
import { DARK, draw, nameDrawing } from "./charts.js";

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      /** @type {StaffloopFigure} */ (entry.target).upgrade();
    }
  },
  { rootMargin: "200px" },
);

class StaffloopFigure extends HTMLElement {
  redraw = () => {
    this.draw().catch((error) => console.warn("figure:", error));
  };

  connectedCallback() {
    seen.observe(this);
  }

  disconnectedCallback() {
    seen.unobserve(this);
    DARK.removeEventListener("change", this.redraw);
    this.chart?.finalize();
  }

  async upgrade() {
    try {
      this.spec = await send("GET", this.dataset.spec || "");
      await this.draw();
      DARK.addEventListener("change", this.redraw);
    } catch (error) {
      // The picture that the worker drew stays.
      console.warn("figure:", error);
    }
  }

  async draw() {
    const holder = document.createElement("div");
    holder.className = "picture chart";
    const current = /** @type {HTMLElement} */ (this.querySelector(".picture"));
    // Drawn beside the picture, out of sight but as wide, so that a failure leaves the picture.
    holder.classList.add("pending");
    current.after(holder);
    try {
      const chart = await draw(holder, this.spec);
      this.chart?.finalize();
      this.chart = chart;
    } catch (error) {
      holder.remove();
      throw error;
    }
    current.remove();
    holder.classList.remove("pending");
    nameDrawing(holder, this.querySelector("h3")?.textContent || "");
  }
}

customElements.define("staffloop-figure", StaffloopFigure);
