import gradio as gr


def greet(name):
    return f"Hello, {name}!"


demo = gr.Interface(greet, gr.Textbox(label="Name"), gr.Textbox(label="Greeting"), title="Greetings")

if __name__ == "__main__":
    demo.launch()
